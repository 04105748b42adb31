package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// maxMethods is how many methods an interface may have; see ADR 0016.
const maxMethods = 8

// foreignMethods lists the methods of interfaces that ours embed and that this repository does not declare.
var foreignMethods = map[string][]string{
	"error": {"Error"},
	"github.com/google/go-containerregistry/pkg/v1/remote.Taggable": {"RawManifest"},
}

func TestInterfacesAreSmall(t *testing.T) {
	t.Parallel()
	found := interfaces{}
	for _, file := range listFiles(t) {
		if strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") {
			found.add(t, file, read(t, file))
		}
	}
	for name := range found {
		methods, unknown := found.methods(name)
		if len(unknown) > 0 {
			t.Errorf("%s embeds %s: list its methods in foreignMethods", name, strings.Join(unknown, ", "))
		}
		if len(methods) > maxMethods {
			t.Errorf("%s has %d methods, more than %d: %s", name, len(methods), maxMethods, strings.Join(methods, ", "))
		}
	}
	if len(found) < 20 {
		t.Errorf("found only %d interfaces", len(found))
	}
}

// interfaces maps the name of an interface, with the path of its package, to the names of its methods, and of the interfaces and
// types that it embeds. An interface without a name has its position instead.
type interfaces map[string]struct{ methods, embeds []string }

func (all interfaces) add(t *testing.T, file, text string) {
	t.Helper()
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	names := map[ast.Expr]string{}
	ast.Inspect(parsed, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.TypeSpec:
			names[n.Type] = path.Dir(file) + "." + n.Name.Name
		case *ast.InterfaceType:
			name := names[n]
			if name == "" {
				name = set.Position(n.Pos()).String()
			}
			found := all[name]
			for _, field := range n.Methods.List {
				for _, method := range field.Names {
					found.methods = append(found.methods, method.Name)
				}
				if embedded := embeddedName(parsed, path.Dir(file), field.Type); embedded != "" && len(field.Names) == 0 {
					found.embeds = append(found.embeds, embedded)
				}
			}
			all[name] = found
		}
		return true
	})
}

// embeddedName returns the name of an embedded interface as in interfaces, or "" for a set of types, which has no methods.
func embeddedName(file *ast.File, folder string, embedded ast.Expr) string {
	switch embedded := embedded.(type) {
	case *ast.Ident:
		if types.Universe.Lookup(embedded.Name) != nil {
			return embedded.Name
		}
		return folder + "." + embedded.Name
	case *ast.IndexExpr:
		return embeddedName(file, folder, embedded.X)
	case *ast.IndexListExpr:
		return embeddedName(file, folder, embedded.X)
	case *ast.SelectorExpr:
		for _, imported := range file.Imports {
			full := strings.Trim(imported.Path.Value, `"`)
			name := path.Base(full)
			if imported.Name != nil {
				name = imported.Name.Name
			}
			if name == nameOf(embedded.X) {
				return strings.TrimPrefix(full, "github.com/warren-mq/warren/") + "." + embedded.Sel.Name
			}
		}
	}
	return ""
}

// methods returns the sorted methods of an interface with those of the embedded ones, and the embedded interfaces that are not known.
func (all interfaces) methods(name string) (methods, unknown []string) {
	names := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		found, isOurs := all[name]
		foreign, isForeign := foreignMethods[name]
		if !isOurs && !isForeign {
			unknown = append(unknown, name)
		}
		for _, method := range slices.Concat(found.methods, foreign) {
			names[method] = true
		}
		for _, embedded := range found.embeds {
			visit(embedded)
		}
	}
	visit(name)
	return slices.Sorted(maps.Keys(names)), unknown
}

func TestMethodsOfInterfaces(t *testing.T) {
	t.Parallel()
	found := interfaces{}
	found.add(t, "a/a.go", `package a
		import ("io"; "github.com/warren-mq/warren/b"; other "example.com/other")
		type Small interface { One(); Two() }
		type Embeds interface { Small; b.Big; error; Two() }
		type Foreign interface { io.Reader; other.Thing }
		type Number interface { ~int | ~int64 }
		func f(of interface { Small; Three() }) {}`)
	found.add(t, "b/b.go", `package b
		type Big interface { Four(); Five() }`)
	got := map[string]string{}
	for name := range found {
		methods, unknown := found.methods(name)
		got[name] = strings.Join(slices.Concat(methods, unknown), " ")
	}
	want := map[string]string{
		"a.Small": "One Two", "a.Embeds": "Error Five Four One Two", "a.Foreign": "io.Reader example.com/other.Thing", "a.Number": "",
		"a/a.go:7:13": "One Three Two", "b.Big": "Five Four",
	}
	if difference := cmp.Diff(want, got); difference != "" {
		t.Errorf("methods (-want +got):\n%s", difference)
	}
}
