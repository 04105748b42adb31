package deadletter

import "testing"

func TestParseHeaders(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		given []string
		want  []HeaderRequirement
	}{
		"nothing":          {nil, nil},
		"one value":        {[]string{"kind=a, b"}, []HeaderRequirement{{"kind", In, []string{"a, b"}}}},
		"several values":   {[]string{"kind=a", "kind=b=c"}, []HeaderRequirement{{"kind", In, []string{"a", "b=c"}}}},
		"an empty value":   {[]string{"kind="}, []HeaderRequirement{{"kind", In, []string{""}}}},
		"other values":     {[]string{"kind!=a", "kind=b"}, []HeaderRequirement{{"kind", NotIn, []string{"a"}}, {"kind", In, []string{"b"}}}},
		"with a header":    {[]string{"kind"}, []HeaderRequirement{{Name: "kind", Operator: Exists}}},
		"without a header": {[]string{"!kind"}, []HeaderRequirement{{Name: "kind", Operator: DoesNotExist}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseHeaders(test.given)
			equal(t, "error", nil, err)
			equal(t, "requirements", test.want, got)
		})
	}
	for _, wrong := range []string{"", "!", "=a", "!=a"} {
		if _, err := ParseHeaders([]string{wrong}); err == nil {
			t.Errorf("%q was taken", wrong)
		}
	}
}
