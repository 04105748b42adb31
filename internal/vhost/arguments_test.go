package vhost_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/warren-mq/warren/internal/vhost"
)

func TestNormalize(t *testing.T) {
	t.Parallel()
	got := vhost.Normalize(map[string]any{
		"int8": int8(-1), "uint8": uint8(2), "int32": int32(3), "int": 4, "uint64": uint64(5), "float32": float32(6), "float64": 7.0,
		"number": json.Number("8"), "exponent": json.Number("9e0"), "fraction": json.Number("1.5"), "huge": json.Number("1e400"),
		"large": uint64(math.MaxUint64), "half": 0.5, "string": "10", "bytes": []byte("b"), "true": true, "nil": nil,
		"list": []any{int16(1), []byte("c")}, "table": map[string]any{"n": json.Number("1"), "t": map[string]any{}},
	})
	want := vhost.Arguments{
		"int8": int64(-1), "uint8": int64(2), "int32": int64(3), "int": int64(4), "uint64": int64(5), "float32": int64(6), "float64": int64(7),
		"number": int64(8), "exponent": int64(9), "fraction": 1.5, "huge": "1e400",
		"large": uint64(math.MaxUint64), "half": 0.5, "string": "10", "bytes": "b", "true": true, "nil": nil,
		"list": []any{int64(1), "c"}, "table": map[string]any{"n": int64(1), "t": map[string]any(nil)},
	}
	if difference := cmp.Diff(want, got); difference != "" {
		t.Errorf("normalized (-want +got):\n%s", difference)
	}
	if difference := cmp.Diff(vhost.Arguments(nil), vhost.Normalize(map[string]any{}), cmpopts.EquateEmpty()); difference != "" {
		t.Error(difference)
	}
}
