package deadlettertext

import (
	"strings"
	"testing"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
)

func TestSummary(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		deadLetter v1alpha1.DeadLetter
		want       string
	}{
		"what the consumer says": {
			v1alpha1.DeadLetter{Body: "{}", Headers: map[string]any{"x-failure-message": "no stock\nfor A-1"}}, `no stock\nfor A-1`,
		},
		"the body in one line": {v1alpha1.DeadLetter{Body: "{\n  \"a\": 1\n}"}, `{ "a": 1 }`},
		"no text":              {v1alpha1.DeadLetter{Body: "AAE=", BodyEncoding: v1alpha1.Base64, Size: 2}, "2 bytes that are not text"},
		"the beginning":        {v1alpha1.DeadLetter{Body: strings.Repeat("ä", 200)}, strings.Repeat("ä", 159) + "…"},
		"a header that is no text": {
			v1alpha1.DeadLetter{Body: "b", Headers: map[string]any{"x-failure-message": []any{"a"}}}, "b",
		},
		"escape sequences": {v1alpha1.DeadLetter{Body: "a\x1b[2Jb\u202e"}, `a\x1b[2Jb\u202e`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Summary(test.deadLetter); got != test.want {
				t.Errorf("Summary %q, want %q", got, test.want)
			}
		})
	}
}
