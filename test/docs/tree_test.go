package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// passage is text that may contain names: a text in backticks or a make call on a page, or a line of a comment.
type passage struct {
	file      string
	line      int
	text      string
	documents []string // what a Go comment documents, if this is its first line
}

// tree contains the declarations in the files of the repository, and the passages.
type tree struct {
	paths    map[string]bool // of files and folders, and each suffix of a path; complete paths begin with "./"
	targets  map[string]bool // of the Makefile
	code     map[string]bool // words and dotted words outside of comments, and "plan.Decide" for each declaration
	ours     map[string]bool // packages and exported types
	passages []passage
}

func newTree() *tree {
	return &tree{paths: map[string]bool{}, targets: map[string]bool{}, code: map[string]bool{}, ours: map[string]bool{}}
}

// unread matches the files that the tests do not check: generated files, and names_test.go, whose examples name what does not exist.
var unread = regexp.MustCompile(`^(docs/reference|charts/warren/files|config/crd)/|^test/docs/names_test.go$`)

// listFiles returns the files of the working tree that Git tracks or would add.
func listFiles(t *testing.T) []string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	files, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Fields(string(files)), func(file string) bool {
		_, err := os.Stat(filepath.Join(root, file))
		return err != nil
	})
}

func readTree(t *testing.T) *tree {
	t.Helper()
	tree := newTree()
	for _, file := range listFiles(t) {
		text := read(t, file)
		tree.addPath(file)
		switch {
		case unread.MatchString(file):
		case strings.HasSuffix(file, ".md"):
			tree.addPage(file, text)
		case strings.HasSuffix(file, ".go"):
			tree.addGo(t, file, text)
		default:
			tree.addText(file, text)
		}
	}
	for _, found := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllStringSubmatch(read(t, "Makefile"), -1) {
		tree.targets[found[1]] = true
	}
	return tree
}

func (tree *tree) addPath(file string) {
	for part := file; part != "."; part = path.Dir(part) {
		tree.paths["./"+part] = true
		for end, found := part, true; found; _, end, found = strings.Cut(end, "/") {
			tree.paths[end] = true
		}
	}
}

var (
	backticks = regexp.MustCompile("`[^`]+`(?:\\sin\\s`[^`]+`)?")
	hashFiles = regexp.MustCompile(`\.(sh|ya?ml)$|^(Makefile|Dockerfile|\.ci/run)$`)
)

// addPage adds texts in backticks, and lines in code blocks that call make.
func (tree *tree) addPage(file, page string) {
	var prose strings.Builder
	inBlock := false
	for line := range strings.Lines(page) {
		command, _, _ := strings.Cut(strings.TrimSpace(line), "#")
		switch isFence := strings.HasPrefix(command, "```"); {
		case isFence:
			inBlock, line = !inBlock, "\n"
		case inBlock && strings.HasPrefix(command, "make "):
			line = "`" + strings.TrimSpace(command) + "`\n"
		case inBlock:
			line = "\n"
		}
		prose.WriteString(line)
	}
	text := prose.String()
	for _, at := range backticks.FindAllStringIndex(text, -1) {
		line := 1 + strings.Count(text[:at[0]], "\n")
		tree.passages = append(tree.passages, passage{file: file, line: line, text: text[at[0]:at[1]]})
	}
}

func (tree *tree) addText(file, text string) {
	line := 0
	for code := range strings.Lines(text) {
		line++
		if hashFiles.MatchString(file) {
			var comment string
			code, comment, _ = strings.Cut(" "+code, " #")
			if comment = strings.TrimSpace(comment); comment != "" {
				tree.passages = append(tree.passages, passage{file: file, line: line, text: comment})
			}
		}
		tree.addCode(code)
	}
}

func (tree *tree) addCode(text string) {
	for _, name := range dottedWords(text) {
		tree.code[name] = true
		for part := range strings.SplitSeq(name, ".") {
			tree.code[part] = true
		}
	}
}

func dottedWords(text string) []string {
	list := strings.FieldsFunc(text, func(r rune) bool { return r != '.' && r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for i := range list {
		list[i] = strings.Trim(list[i], ".")
	}
	return list
}

func (tree *tree) addGo(t *testing.T, file, text string) {
	t.Helper()
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	if ast.IsGenerated(parsed) {
		return
	}
	pkg := strings.TrimSuffix(parsed.Name.Name, "_test")
	tree.ours[pkg] = true
	documented := map[*ast.CommentGroup][]string{}
	declare := func(owner string, doc *ast.CommentGroup, names ...*ast.Ident) {
		for _, name := range names {
			tree.code[owner+"."+name.Name] = true
			documented[doc] = append(documented[doc], name.Name)
		}
	}
	var group *ast.CommentGroup // comment of the declaration that contains the names
	ast.Inspect(parsed, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.Ident:
			tree.code[n.Name] = true
		case *ast.BasicLit:
			tree.addCode(n.Value)
		case *ast.SelectorExpr:
			tree.code[nameOf(n.X)+"."+n.Sel.Name] = true
		case *ast.FuncDecl:
			owner := pkg
			if n.Recv != nil {
				owner = dottedWords(types.ExprString(n.Recv.List[0].Type))[0]
			}
			declare(owner, n.Doc, n.Name)
		case *ast.GenDecl:
			group = n.Doc
		case *ast.TypeSpec:
			declare(pkg, group, n.Name)
			declare(pkg, n.Doc, n.Name)
			if n.Name.IsExported() {
				tree.ours[n.Name.Name] = true
			}
			ast.Inspect(n.Type, func(inner ast.Node) bool {
				if field, ok := inner.(*ast.Field); ok {
					declare(n.Name.Name, field.Doc, field.Names...)
				}
				return true
			})
		case *ast.ValueSpec:
			declare(pkg, group, n.Names...)
			declare(pkg, n.Doc, n.Names...)
		}
		return true
	})
	for _, comments := range parsed.Comments {
		names := documented[comments]
		for _, comment := range comments.List {
			line := set.Position(comment.Pos()).Line
			for text := range strings.Lines(comment.Text) {
				// Code begins with a tab, and a marker with a plus sign.
				if text = strings.TrimPrefix(text, "//"); !strings.HasPrefix(text, "\t") && !strings.HasPrefix(text, " +") {
					tree.passages = append(tree.passages, passage{file, line, strings.TrimSpace(text), names})
				}
				line, names = line+1, nil
			}
		}
	}
}
