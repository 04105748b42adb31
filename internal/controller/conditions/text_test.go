package conditions

import (
	"testing"
	"unicode/utf8"

	"github.com/warren-mq/warren/internal/topology/topologytest"
)

func TestCutEncoded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, want string }{
		"short":                {"abc", "abc"},
		"as long as the limit": {"abcdefgh", "abcdefgh"},
		"too long":             {"abcdefghi", "abcde…"},
		"wide":                 {"ääääß", "ää…"},
		"escaped":              {`""""`, `""""`},
		"escaped, long":        {`"""""`, `""…`},
		"control":              {"\x01\x01", "…"},
		"invalid":              {"a\xffb", "a\uFFFDb"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := TruncateEncoded(test.text, 8)
			topologytest.Equal(t, "text", test.want, got)
			if !utf8.ValidString(got) || EncodedSize(got) > 8+2 {
				t.Errorf("%q takes %d bytes", got, EncodedSize(got))
			}
		})
	}
}
