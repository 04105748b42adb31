package eventfeed

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseArguments(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		terms any
		want  map[string]any
		exact bool
	}{
		"none":       {terms: []any{}, want: map[string]any{}, exact: true},
		"absent":     {terms: nil, exact: true},
		"text":       {terms: []any{`{<<"x-queue-type">>,longstr,<<"quorum">>}`}, want: map[string]any{"x-queue-type": "quorum"}, exact: true},
		"empty text": {terms: []any{`{<<"x-dead-letter-exchange">>,longstr,<<>>}`}, want: map[string]any{"x-dead-letter-exchange": ""}, exact: true},
		"number":     {terms: []any{`{<<"x-message-ttl">>,long,5000}`}, want: map[string]any{"x-message-ttl": int64(5000)}, exact: true},
		"negative":   {terms: []any{`{<<"x-delivery-limit">>,signedint,-1}`}, want: map[string]any{"x-delivery-limit": int64(-1)}, exact: true},
		"bool":       {terms: []any{`{<<"x-single-active-consumer">>,bool,true}`}, want: map[string]any{"x-single-active-consumer": true}, exact: true},
		"broken over lines": {
			terms: []any{"{<<\"x-dead-letter-routing-key\">>,longstr,\n <<\"a key that is long\"\n   \" enough\">>}"},
			want:  map[string]any{"x-dead-letter-routing-key": "a key that is long enough"}, exact: true,
		},
		"a quote in the text":      {terms: []any{`{<<"k">>,longstr,<<"a\"b">>}`}},
		"text as bytes":            {terms: []any{`{<<"k">>,longstr,<<195,169>>}`}},
		"text beyond ASCII":        {terms: []any{"{<<\"k\">>,longstr,<<\"\u00e9\">>}"}},
		"a comma in the text":      {terms: []any{`{<<"k">>,longstr,<<"a,b">>}`}, want: map[string]any{"k": "a,b"}, exact: true},
		"a closing in the text":    {terms: []any{`{<<"k">>,longstr,<<"a>>}">>}`}, want: map[string]any{"k": "a>>}"}, exact: true},
		"a fraction":               {terms: []any{`{<<"f">>,double,1.5}`}},
		"a table":                  {terms: []any{`{<<"t">>,table,[{<<"a">>,longstr,<<"b">>}]}`}},
		"one good and one not":     {terms: []any{`{<<"a">>,bool,true}`, `{<<"t">>,table,[]}`}},
		"something behind text":    {terms: []any{`{<<"k">>,longstr,<<"a">>,x}`}},
		"not a term":               {terms: []any{"hello"}},
		"not a list":               {terms: "hello"},
		"an entry that is no text": {terms: []any{5}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, exact := parseArguments(c.terms)
			if exact != c.exact {
				t.Errorf("exact: got %v, want %v", exact, c.exact)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
		})
	}
}
