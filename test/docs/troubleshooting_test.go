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

// docs/troubleshooting has an entry for each reason of a condition, each Event, and each code and reason of an advisory,
// and no other entry. Below its heading an entry says what of these it is.
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

// The first page lists each word with a link to its entry, and leads to no other word.
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

// Each entry says what its word means, what to look at, and what to do. To look is a command, or leads to a page.
func TestTroubleshootingEntries(t *testing.T) {
	t.Parallel()
	var words []string
	for _, entry := range entries(t) {
		words = append(words, entry.word)
		if entry.means == "" || entry.do == "" {
			t.Errorf("%s: it is not said what it means, or what to do", entry.word)
		}
		if !slices.ContainsFunc(code(entry.look), func(c string) bool { return strings.Contains(c, "kubectl ") || strings.Contains(c, "rabbitmq") }) {
			t.Errorf("%s: no command says where to look", entry.word)
		}
	}
	if slices.Sort(words); len(slices.Compact(slices.Clone(words))) != len(words) {
		t.Errorf("a word has two entries, and one anchor: %v", words)
	}
}

// Conditions and Events get their reasons from the constants that TestTroubleshooting knows, not from texts of their own.
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
				t.Errorf("%s: %s should be named Reason… or event…, to be found", set.Position(call.Pos()), name)
			}
			return true
		})
	})
	if seen < 20 {
		t.Errorf("found %d reasons only", seen)
	}
}

// reasonArgument is the reason that a call makes a condition or an Event with; nil for other calls.
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

// nameOf is the last name of an expression such as v1alpha1.ReasonInSync or reason; empty for a text.
func nameOf(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// entry is one of a page in docs/troubleshooting.
type entry struct{ page, word, kinds, means, look, do string }

var entryText = regexp.MustCompile("(?s)^`(\\w+)`\n\n_([^_]+)_\n\n- \\*\\*Means:\\*\\* (.*)\n- \\*\\*Look:\\*\\* (.*)\n- \\*\\*Do:\\*\\* (.*)$")

// entries are read from the pages beside docs/troubleshooting/README.md: each heading of the second level is one.
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
				t.Errorf("%s: this is no entry with its kinds, Means, Look and Do:\n%s", page, text)
				continue
			}
			list = append(list, entry{page, found[1], found[2], found[3], found[4], found[5]})
		}
	}
	return list
}

// namedReason is a constant that a user gets to see.
type namedReason struct{ kind, value string }

// namedReasons are found by the types and names of constants.
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

// eachConstant visits the constants of a file that are texts, with their types.
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

// eachFile parses the Go files below a folder, but for tests.
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
