package contract_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warren-mq/warren/consumer/contract"
)

// vector is a test case from a file in vectors. Consumers in other languages run the same vectors.
type vector struct {
	Name     string            `json:"name"`
	Contract contract.Contract `json:"contract"`
	Delivery contract.Facts    `json:"delivery"`
	Outcome  contract.Outcome  `json:"outcome"`
	Progress json.RawMessage   `json:"progress"`
	Action   json.RawMessage   `json:"action"`
}

func TestVectors(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("vectors/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no vectors: %v", err)
	}
	for _, file := range files {
		for _, v := range readVectors(t, file) {
			t.Run(filepath.Base(file)+": "+v.Name, func(t *testing.T) {
				t.Parallel()
				if err := v.Contract.Validate(); err != nil {
					t.Fatal(err)
				}
				equalJSON(t, "progress", v.Progress, v.Contract.Progress(v.Delivery))
				before := marshal(t, v.Delivery)
				equalJSON(t, "action", v.Action, v.Contract.Decide(v.Delivery, v.Outcome))
				if diff := cmp.Diff(string(before), string(marshal(t, v.Delivery))); diff != "" {
					t.Errorf("the delivery was changed (-before +after):\n%s", diff)
				}
			})
		}
	}
}

func readVectors(t *testing.T, file string) []vector {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var vectors []vector
	if err := decoder.Decode(&vectors); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return vectors
}

func equalJSON(t *testing.T, what string, want json.RawMessage, got any) {
	t.Helper()
	if diff := cmp.Diff(decode(t, want), decode(t, marshal(t, got))); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func marshal(t *testing.T, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func decode(t *testing.T, text []byte) (value any) {
	t.Helper()
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	return value
}
