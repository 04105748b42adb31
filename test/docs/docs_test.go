// Package docs checks that lists in the documentation match their sources, such as permissions, flags, reasons and files. It only
// reads files. Other packages test what Warren does.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const root = "../.."

// read returns the content of a file in the repository.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// pages returns the hand-written Markdown files, relative to the root.
func pages(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(allPages(t), func(page string) bool { return strings.HasPrefix(page, "docs/reference/") })
}

// table returns the rows of the first table after a text, without its header and with trimmed cells.
func table(t *testing.T, page, after string) [][]string {
	t.Helper()
	return wholeTable(t, page, after)[2:]
}

// wholeTable returns what table returns, behind the header and the line below it.
func wholeTable(t *testing.T, page, after string) [][]string {
	t.Helper()
	_, rest, found := strings.Cut(page, after)
	if !found {
		t.Fatalf("there is no %q any more", after)
	}
	var rows [][]string
	for line := range strings.Lines(rest) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			if len(rows) > 0 {
				break
			}
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	if len(rows) < 3 {
		t.Fatalf("there is no table after %q", after)
	}
	return rows
}

// code returns the texts in single backticks.
func code(text string) []string {
	var list []string
	for _, found := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(text, -1) {
		list = append(list, found[1])
	}
	return list
}

// sameSet compares without regard to order and duplicates.
func sameSet(t *testing.T, what string, documented, actual []string) {
	t.Helper()
	for _, list := range []*[]string{&documented, &actual} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	if difference := cmp.Diff(actual, documented); difference != "" {
		t.Errorf("%s (- is so, + is documented):\n%s", what, difference)
	}
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// Every relative link in the documentation points to an existing file and heading.
func TestLinks(t *testing.T) {
	t.Parallel()
	known := map[string][]string{}
	anchors := func(path string) []string {
		if _, found := known[path]; !found {
			known[path] = headings(read(t, path))
		}
		return known[path]
	}
	for _, page := range pages(t) {
		for _, found := range link.FindAllStringSubmatch(read(t, page), -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			target, heading, _ := strings.Cut(found[1], "#")
			path := filepath.ToSlash(filepath.Join(filepath.Dir(page), target))
			if target == "" {
				path = page
			}
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s: %s: this file does not exist", page, found[1])
			} else if heading != "" && !slices.Contains(anchors(path), heading) {
				t.Errorf("%s: %s: this heading does not exist", page, found[1])
			}
		}
	}
}

// notInAnchors are the characters that GitHub removes from a heading.
var notInAnchors = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// headings returns the anchors of a page.
func headings(page string) []string {
	var list []string
	for line := range strings.Lines(page) {
		if title, found := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); found && strings.HasPrefix(line, "#") {
			title = notInAnchors.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			list = append(list, strings.ReplaceAll(title, " ", "-"))
		}
	}
	return list
}

// docs/README.md, which is also the navigation of the site, lists every page, or a README.md of a folder that it lists does.
func TestEveryPageIsListed(t *testing.T) {
	t.Parallel()
	indexes := []string{"docs/README.md"}
	var listed, want []string
	for _, page := range allPages(t) {
		if page != "docs/README.md" && page != "README.md" {
			want = append(want, page)
		}
		if strings.HasPrefix(page, "docs/") && strings.Count(page, "/") > 1 && filepath.Base(page) == "README.md" {
			indexes = append(indexes, page)
		}
	}
	for _, index := range indexes {
		for _, found := range link.FindAllStringSubmatch(read(t, index), -1) {
			target, _, _ := strings.Cut(found[1], "#")
			if page := filepath.ToSlash(filepath.Join(filepath.Dir(index), target)); strings.HasSuffix(page, ".md") && slices.Contains(want, page) {
				listed = append(listed, page)
			}
		}
	}
	sameSet(t, "docs/README.md", listed, want)
}

// The folders and files that docs/development.md lists exist, and no folder with code is missing.
func TestWhereThingsAre(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/development.md")
	_, tree, _ := strings.Cut(page, "## Where things are\n\n```\n")
	tree, _, _ = strings.Cut(tree, "```")
	var named []string
	for line := range strings.Lines(tree) {
		path, _, _ := strings.Cut(line, " ")
		named = append(named, strings.TrimSuffix(path, "/"))
	}
	for _, row := range table(t, page, "## Where things are") {
		for _, name := range code(row[1]) {
			if !strings.Contains(name, "/") {
				continue // a file in the same directory as the previous one
			}
			if found, err := filepath.Glob(filepath.Join(root, name)); err != nil || len(found) == 0 {
				t.Errorf("%s: there is no %s", row[0], name)
			}
		}
	}
	for _, name := range named {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Errorf("there is no %s", name)
		}
	}
	for _, folder := range []string{"internal", "test", "cmd"} {
		entries, err := os.ReadDir(filepath.Join(root, folder))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			path := folder + "/" + entry.Name()
			if !slices.ContainsFunc(named, func(n string) bool { return n == path || strings.HasPrefix(n, path+"/") }) && !strings.HasSuffix(path, "_test.go") {
				t.Errorf("%s is not named", path)
			}
		}
	}
}

// docs/development.md lists all targets of the Makefile.
func TestMakeTargets(t *testing.T) {
	t.Parallel()
	var documented, actual []string
	for _, row := range table(t, read(t, "docs/development.md"), "## Make targets") {
		documented = append(documented, code(row[0])...)
	}
	for _, found := range regexp.MustCompile(`(?m)^([a-z0-9-]+):.*## `).FindAllStringSubmatch(read(t, "Makefile"), -1) {
		if found[1] != "help" {
			actual = append(actual, found[1])
		}
	}
	sameSet(t, "targets", documented, actual)
}

// A stranger reads the README in a few minutes.
func TestReadmeIsShort(t *testing.T) {
	t.Parallel()
	if lines := strings.Count(read(t, "README.md"), "\n"); lines > 110 {
		t.Errorf("README.md has %d lines, more than 110: move text to a page of docs/", lines)
	}
}
