package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// docs/troubleshooting has exactly one entry for each reason of a condition, each Event, and each code and reason of an advisory.
// An entry says which of these it is.
func TestTroubleshooting(t *testing.T) {
	t.Parallel()
	var documented, actual []string
	for _, entry := range entries(t) {
		for kind := range strings.SplitSeq(entry.kinds, ", ") {
			documented = append(documented, entry.word+": "+kind)
		}
	}
	for _, constant := range namedReasons(t) {
		actual = append(actual, constant.value+": "+constant.kind)
	}
	sameSet(t, "docs/troubleshooting", documented, actual)
}

// The first page lists exactly the words of all entries, with links.
func TestTroubleshootingIndex(t *testing.T) {
	t.Parallel()
	var listed, want []string
	for _, entry := range entries(t) {
		want = append(want, entry.page+"#"+strings.ToLower(entry.word))
	}
	for _, row := range table(t, read(t, "docs/troubleshooting/README.md"), "## Find a word") {
		for _, found := range link.FindAllStringSubmatch(row[1], -1) {
			listed = append(listed, found[1])
		}
	}
	sameSet(t, "docs/troubleshooting/README.md", listed, want)
}

// Each entry says what its word means, what to check, and what to do. The check is a command or a link.
func TestTroubleshootingEntries(t *testing.T) {
	t.Parallel()
	var words []string
	for _, entry := range entries(t) {
		words = append(words, entry.word)
		if entry.means == "" || entry.do == "" {
			t.Errorf("%s: the meaning or the solution is missing", entry.word)
		}
		if !slices.ContainsFunc(code(entry.check), func(c string) bool { return strings.Contains(c, "kubectl ") || strings.Contains(c, "rabbitmq") }) {
			t.Errorf("%s: no command shows where to look", entry.word)
		}
	}
	if slices.Sort(words); len(slices.Compact(slices.Clone(words))) != len(words) {
		t.Errorf("a word has two entries, and one anchor: %v", words)
	}
}

// Conditions and Events use the constants that TestTroubleshooting finds as reasons, not string literals.
func TestReasonsAreConstants(t *testing.T) {
	t.Parallel()
	seen := 0
	eachFile(t, "internal/controller", func(set *token.FileSet, file *ast.File) {
		ast.Inspect(file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				return true
			}
			reason := reasonArgument(call)
			if reason == nil {
				return true
			}
			seen++
			switch name := nameOf(reason); {
			case name == "":
				t.Errorf("%s: this reason has no name", set.Position(call.Pos()))
			case name != strings.ToLower(name) && !strings.HasPrefix(name, "Reason") && !strings.HasPrefix(name, "event"):
				t.Errorf("%s: %s must be named Reason… or event…, so that this test finds it", set.Position(call.Pos()), name)
			}
			return true
		})
	})
	if seen < 20 {
		t.Errorf("found %d reasons only", seen)
	}
}

// reasonArgument returns the reason argument of a call that creates a condition or an Event, or nil.
func reasonArgument(call *ast.CallExpr) ast.Expr {
	function, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	switch on := nameOf(function.X); function.Sel.Name {
	case "True", "False", "Unknown":
		if on == "conditions" {
			return call.Args[0]
		}
	case "addEvent":
		return call.Args[1]
	case "Eventf":
		return call.Args[3]
	}
	return nil
}

// nameOf returns the last name of an expression such as v1alpha1.ReasonInSync or reason, or "" for a literal.
func nameOf(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// entry is an entry of a page in docs/troubleshooting.
type entry struct{ page, word, kinds, means, check, do string }

var entryText = regexp.MustCompile("(?s)^`(\\w+)`\n\n_([^_]+)_\n\n- \\*\\*Means:\\*\\* (.*)\n- \\*\\*Check:\\*\\* (.*)\n- \\*\\*Do:\\*\\* (.*)$")

// entries returns the entries of the pages in docs/troubleshooting, which are their headings of the second level.
func entries(t *testing.T) []entry {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(root, "docs/troubleshooting/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	var list []entry
	for _, page := range pages {
		page = filepath.Base(page)
		if page == "README.md" {
			continue
		}
		for _, text := range strings.Split(read(t, "docs/troubleshooting/"+page), "\n## ")[1:] {
			found := entryText.FindStringSubmatch(strings.TrimSpace(text))
			if found == nil {
				t.Errorf("%s: not an entry with kinds, Means, Check and Do:\n%s", page, text)
				continue
			}
			list = append(list, entry{page, found[1], found[2], found[3], found[4], found[5]})
		}
	}
	return list
}

// namedReason is a constant that users see.
type namedReason struct{ kind, value string }

// namedReasons finds constants by their types and names.
func namedReasons(t *testing.T) []namedReason {
	t.Helper()
	found := map[namedReason]bool{}
	eachFile(t, "api/v1alpha1", func(_ *token.FileSet, file *ast.File) {
		eachConstant(t, file, func(name, kind, value string) {
			switch {
			case kind == "AdvisoryCode":
				found[namedReason{"advisory", value}] = true
			case kind == "AdvisoryReason":
				found[namedReason{"reason of an advisory", value}] = true
			case strings.HasPrefix(name, "Reason"):
				found[namedReason{"condition", value}] = true
			}
		})
	})
	eachFile(t, "internal/controller", func(_ *token.FileSet, file *ast.File) {
		eachConstant(t, file, func(name, _, value string) {
			if strings.HasPrefix(name, "event") {
				found[namedReason{"Event", value}] = true
			}
		})
	})
	return slices.Collect(maps.Keys(found))
}

// eachConstant visits the string constants of a file with their types.
func eachConstant(t *testing.T, file *ast.File, visit func(name, kind, value string)) {
	t.Helper()
	for _, declaration := range file.Decls {
		constants, ok := declaration.(*ast.GenDecl)
		if !ok || constants.Tok != token.CONST {
			continue
		}
		for _, spec := range constants.Specs {
			spec := spec.(*ast.ValueSpec)
			for i, value := range spec.Values {
				literal, ok := value.(*ast.BasicLit)
				if !ok || literal.Kind != token.STRING {
					continue
				}
				text, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				visit(spec.Names[i].Name, nameOf(spec.Type), text)
			}
		}
	}
}

// eachFile parses the Go files below a folder, except tests.
func eachFile(t *testing.T, folder string, visit func(*token.FileSet, *ast.File)) {
	t.Helper()
	set := token.NewFileSet()
	err := filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err == nil {
			visit(set, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
