package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const functions = `
// Says that it is there.
isThere(place) =
  has(place.name)
  && place.name != ''

either(a, b) =
  a || b

allThere(list) =
  list.all(item, isThere(item))
`

func TestExpand(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ rule, want string }{
		"a rule that calls no function stays as it is": {rule: "self.all(k,  size(k) > 0)", want: "self.all(k,  size(k) > 0)"},
		"an argument takes the place of the parameter": {rule: "isThere(self.from)", want: `has(self.from.name) && self.from.name != ""`},
		"an expression stays together":                 {rule: "!isThere(self)", want: `!(has(self.name) && self.name != "")`},
		"so does one within another":                   {rule: "either(self.a, self.b) && self.c", want: "(self.a || self.b) && self.c"},
		"functions call those above them":              {rule: "allThere(self)", want: `self.all(item, has(item.name) && item.name != "")`},
		"arguments may be calls":                       {rule: "either(isThere(self), self.c)", want: `has(self.name) && self.name != "" || self.c`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := mustParse(t, functions).expand(test.rule)
			if err != nil {
				t.Fatal(err)
			}
			if difference := cmp.Diff(test.want, got); difference != "" {
				t.Error(difference)
			}
		})
	}
}

func TestExpandRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ rule, want string }{
		"what is no CEL": {rule: "isThere(self) &&", want: "Syntax error"},
		"an argument with a name that the function binds": {rule: "self.all(item, allThere(item))", want: `a variable "item" of its own`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := mustParse(t, functions).expand(test.rule); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("want %q, got %v", test.want, err)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, want string }{
		"a line that is no function's": {text: "isThere(place)\n  true", want: "line 1: expected name(parameter, …) ="},
		"a function without a body":    {text: "isThere(place) =\n", want: "isThere, line 1:"},
		"a name that is no parameter":  {text: "isThere(place) =\n  self.name == ''", want: `isThere, line 1: "self" is not a parameter`},
		"the same name twice":          {text: functions + "either(a, b) =\n  a", want: "declared twice"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := parseLibrary(test.text); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("want %q, got %v", test.want, err)
			}
		})
	}
}

func TestUnused(t *testing.T) {
	t.Parallel()
	library := mustParse(t, functions)
	if _, err := library.expand("allThere(self)"); err != nil {
		t.Fatal(err)
	}
	if difference := cmp.Diff([]string{"either"}, library.unused()); difference != "" {
		t.Error(difference)
	}
}

// The rules of a CRD are expanded wherever they are, and nothing else changes.
func TestExpandFile(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/crd.yaml"
	const before = `---
schema:
  maximum: 2147483647
  properties:
    name:
      x-kubernetes-validations:
      - message: isThere(self)
        rule: isThere(self)
  x-kubernetes-validations:
  - rule: self == oldSelf
`
	if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := expandFile(path, mustParse(t, functions)); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(before, "rule: isThere(self)", `rule: has(self.name) && self.name != ""`, 1)
	if difference := cmp.Diff(want, string(after)); difference != "" {
		t.Error(difference)
	}
}

func mustParse(t *testing.T, text string) *library {
	t.Helper()
	parsed, err := parseLibrary(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}
