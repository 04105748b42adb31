package docs

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// docs/reliability.md names at least one test for each promise and each former defect. The text of a link is the name of the function or
// spec in the linked file.
func TestReliability(t *testing.T) {
	t.Parallel()
	toTest := regexp.MustCompile(`\[([^\]]+)\]\((\.\./[^)]+_test\.go)\)`)
	page := read(t, "docs/reliability.md")
	for _, heading := range []string{"## Guarantees", "## Defects that could have lost messages", "## Defects that could have stopped the operator"} {
		for _, row := range table(t, page, heading) {
			tests := toTest.FindAllStringSubmatch(row[len(row)-1], -1)
			if len(tests) == 0 {
				t.Errorf("%s: %s: no test is named", heading, row[0])
			}
			for _, test := range tests {
				code := read(t, path.Join("docs", test[2]))
				if !strings.Contains(code, "func "+test[1]+"(") && !strings.Contains(code, `("`+test[1]) {
					t.Errorf("%s has no test %q", test[2], test[1])
				}
			}
		}
	}
}
