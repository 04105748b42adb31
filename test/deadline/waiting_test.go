package deadline

import (
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// late lists expressions that read a value once although the operator or RabbitMQ writes it asynchronously.
var late = []struct {
	read   *regexp.Regexp
	advice string
}{
	{
		regexp.MustCompile(`\.EventsSoFar\(`),
		"the manager writes an Event after its act: w.EventuallyReasons, w.EventuallyEvents, w.ConsistentlyReasons or w.ConsistentlyNoEvents",
	},
	{
		regexp.MustCompile(`\.Ready\([^()]*\)([^.]|$)`), // World.Ready has waited for the fields of its result
		"a broker counts messages after it moves them: w.EventuallyMessages, or Eventually(vhost.Ready).WithArguments(queue)",
	},
	{
		regexp.MustCompile(`\.CountConnections\(`),
		"the management API learns of a connection after seconds: Eventually",
	},
	{
		regexp.MustCompile(`\.(Get|GetRedrive|GetPurge|Connection)\([^(),]*\)\.Status\b|^\w+\.(Get|GetRedrive|GetPurge|Connection)\([^(),]*\)$`),
		"the manager writes a status after its act: w.Eventually, w.EventuallyConnection, w.EventuallyRedrive or w.EventuallyPurge, which return what matched",
	},
	{
		regexp.MustCompile(`\bprometheus\.(query|firing)\(`),
		"a metric is scraped after it changes: prometheus.eventually, Eventually(prometheus.firing) or Consistently(prometheus.firing)",
	},
	{
		regexp.MustCompile(`\.text\(\)`),
		"a page changes after a click: Eventually(b.text)",
	},
}

// fixed matches a duration that does not depend on how busy the machine is.
var fixed = regexp.MustCompile(`\btime\.(Milli|Micro)?[sS]econd\b|\btime\.(Second|Minute|Hour)\b`)

// Tests wait for asynchronous events: a test that reads a value only once, or waits only as long as an idle machine needs, is
// flaky.
func TestTestsWait(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	files := 0
	for _, folder := range []string{"test", "internal", "cmd", "consumer", "api"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") && (folder != "test" || !strings.HasSuffix(path, ".go")) {
				return err
			}
			files++
			for _, wrong := range withoutWait(t, path, nil) {
				t.Error(wrong)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 200 {
		t.Errorf("only %d files", files)
	}
}

func TestFindsReadsWithoutWait(t *testing.T) {
	t.Parallel()
	for statement, advice := range map[string]string{
		`Expect(w.EventsSoFar()).To(BeEmpty())`:                                   "EventuallyReasons",
		`g := NewWithT(t); g.Expect(len(w.EventsSoFar())).To(BeZero())`:           "EventuallyReasons",
		`Consistently(w.EventsSoFar).Should(BeEmpty())`:                           "",
		`before := len(w.EventsSoFar())`:                                          "",
		`Expect(w.VHost.Ready("orders")).To(Equal(1))`:                            "EventuallyMessages",
		`Expect([]int{w.VHost.Ready("a"), w.VHost.Ready("b")}).To(Equal(both))`:   "EventuallyMessages",
		`w.EventuallyMessages("orders", Equal(1))`:                                "",
		`Expect(w.Ready("orders").Status.Topology).To(HaveLen(3))`:                "",
		`Expect(running.Health().Ready).To(BeTrue())`:                             "",
		`Expect(broker.CountConnections(t, "warren")).To(BeZero())`:               "management API",
		`Expect(w.Get("orders").Status.Messages).To(BeNil())`:                     "w.Eventually",
		`Expect(*w.GetRedrive(name).Status.Moved).To(BeZero())`:                   "w.EventuallyRedrive",
		`Expect(w.Connection()).To(Condition("Ready", "True", "Connected"))`:      "w.EventuallyConnection",
		`Expect(w.Get("orders").Finalizers).To(BeEmpty())`:                        "",
		`Expect(answer.Header.Get("Location")).To(BeEmpty())`:                     "",
		`Expect(kube.Get(ctx(), key, object)).To(Succeed())`:                      "",
		`Eventually(func(g Gomega) { g.Expect(w.Get("a").Status).To(full) })`:     "",
		`Eventually(func(other Gomega) { g.Expect(w.Get("a").Status).To(full) })`: "w.Eventually",
		`Expect(prometheus.query("up")).To(HaveLen(1))`:                           "prometheus.eventually",
		`Expect(b.text()).To(HavePrefix("4 dead letters"))`:                       "Eventually(b.text)",
		`Eventually(f).WithTimeout(5 * time.Second).Should(Succeed())`:            "deadline.For",
		`g.Eventually(f).WithPolling(p).WithTimeout(time.Minute).Should(full)`:    "deadline.For",
		`Eventually(f, 5*time.Second).Should(Succeed())`:                          "deadline.For",
		`Eventually(f).WithTimeout(deadline.For(time.Second)).Should(full)`:       "",
		`Eventually(f).WithPolling(time.Second).Should(full)`:                     "",
		`Consistently(f).WithTimeout(time.Second).Should(full)`:                   "",
	} {
		found := strings.Join(withoutWait(t, "a_test.go", "package a\nfunc _() {"+statement+"}"), "\n")
		if advice == "" && found != "" || !strings.Contains(found, advice) {
			t.Errorf("%s: %q", statement, found)
		}
	}
}

// withoutWait returns the places in a file that read an asynchronous value once, or wait only as long as an idle machine needs,
// each with advice. If content is nil, it reads the file.
func withoutWait(t *testing.T, path string, content any) (wrong []string) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, content, 0)
	if err != nil {
		t.Fatal(err)
	}
	var around []ast.Node
	ast.Inspect(file, func(node ast.Node) bool {
		if node == nil {
			around = around[:len(around)-1]
			return true
		}
		around = append(around, node)
		if call, is := node.(*ast.CallExpr); is && len(call.Args) > 0 {
			for _, advice := range adviceOn(call, around) {
				wrong = append(wrong, set.Position(call.Pos()).String()+": "+advice)
			}
		}
		return true
	})
	return wrong
}

func adviceOn(call *ast.CallExpr, around []ast.Node) (all []string) {
	switch receiver, name := nameOf(call); {
	case name == "Expect" && !asksAgain(receiver, around):
		text := textOf(call.Args[0])
		for _, l := range late {
			if l.read.MatchString(text) {
				all = append(all, l.advice)
			}
		}
	case name == "Eventually" && len(call.Args) > 1 && fixed.MatchString(textOf(call.Args[1])) && !strings.Contains(textOf(call.Args[1]), "deadline.For"),
		name == "WithTimeout" && strings.Contains(textOf(receiver), "Eventually(") && fixed.MatchString(textOf(call.Args[0])) &&
			!strings.Contains(textOf(call.Args[0]), "deadline.For"):
		all = append(all, "a busy machine takes longer: deadline.For")
	}
	return all
}

// nameOf returns the name of the called function and its receiver, if any.
func nameOf(call *ast.CallExpr) (receiver ast.Expr, name string) {
	switch called := call.Fun.(type) {
	case *ast.Ident:
		return nil, called.Name
	case *ast.SelectorExpr:
		return called.X, called.Sel.Name
	}
	return nil, ""
}

// asksAgain reports whether a receiver is the Gomega argument of a function that Eventually polls.
func asksAgain(receiver ast.Expr, around []ast.Node) bool {
	name, is := receiver.(*ast.Ident)
	return is && slices.ContainsFunc(around, func(node ast.Node) bool {
		function, is := node.(*ast.FuncLit)
		return is && slices.ContainsFunc(function.Type.Params.List, func(field *ast.Field) bool {
			return strings.HasSuffix(textOf(field.Type), "Gomega") &&
				slices.ContainsFunc(field.Names, func(parameter *ast.Ident) bool { return parameter.Name == name.Name })
		})
	})
}

// textOf returns the source text of an expression.
func textOf(expression ast.Expr) string {
	var text strings.Builder
	_ = printer.Fprint(&text, token.NewFileSet(), expression) // a parsed expression can always be printed
	return text.String()
}
