package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The table of README.md has rows, columns and words of the table of docs/comparison.md.
func TestReadmeComparesAsTheComparisonDoes(t *testing.T) {
	t.Parallel()
	whole := comparison(t)
	short := wholeTable(t, read(t, "README.md"), "## Compared with other tools")
	words := func(cell string) []string {
		text := regexp.MustCompile(`\[(\d+|[^]]+)\](\([^)]*\))?`).ReplaceAllString(cell, "$1")
		return regexp.MustCompile(`[\pL_]+`).FindAllString(strings.ToLower(text), -1)
	}
	for _, row := range short[2:] {
		of := slices.IndexFunc(whole, func(other []string) bool { return other[0] == row[0] })
		if of < 0 {
			t.Errorf("docs/comparison.md has no row %q", row[0])
			continue
		}
		for column, cell := range row {
			tool := strings.Join(words(short[0][column]), " ")
			at := slices.IndexFunc(whole[0], func(other string) bool { return strings.Join(words(other), " ") == tool })
			if at < 0 {
				t.Errorf("docs/comparison.md has no column %q", tool)
				continue
			}
			for _, word := range words(cell) {
				if !slices.Contains(words(whole[of][at]), word) {
					t.Errorf("%s, %s: README.md says %q, docs/comparison.md says %q", row[0], tool, cell, whole[of][at])
					break
				}
			}
		}
	}
}

// Each cell of docs/comparison.md has the number of a source, and each source has a link and a cell.
func TestComparisonHasSources(t *testing.T) {
	t.Parallel()
	_, list, _ := strings.Cut(read(t, "docs/comparison.md"), "\n## Sources\n")
	var listed, used []string
	for _, source := range regexp.MustCompile(`(?m)^(\d+)\. .*(\n {3}.*)*`).FindAllStringSubmatch(list, -1) {
		listed = append(listed, source[1])
		if !link.MatchString(source[0]) {
			t.Errorf("source %s has no link", source[1])
		}
	}
	for _, row := range comparison(t)[2:] {
		for _, cell := range row[1:] {
			numbers := regexp.MustCompile(`\[(\d+)\]`).FindAllStringSubmatch(cell, -1)
			if len(numbers) == 0 {
				t.Errorf("%s: %q has no source", row[0], cell)
			}
			for _, number := range numbers {
				used = append(used, number[1])
			}
		}
	}
	sameSet(t, "sources", used, listed)
}

func comparison(t *testing.T) [][]string {
	t.Helper()
	return wholeTable(t, read(t, "docs/comparison.md"), "# Warren and other ways to declare a topology")
}
