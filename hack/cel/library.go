package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/parser"
)

// A library is a list of functions written in CEL, in the order of their declaration. Each becomes a macro of CEL's parser. The
// parser has no other macros, so has(…) and all(…) remain calls and are printed unchanged.
type library struct {
	functions []*function
}

// A function expands to an expression of its parameters.
type function struct {
	name       string
	parameters []string
	body       ast.Expr
	// bound are the variables that the body declares in macros such as all(…).
	bound  []string
	called bool
}

// head is the first line of a function.
var head = regexp.MustCompile(`^(\w+)\((\w+(?:, \w+)*)\) =$`)

// parseLibrary parses functions. Each consists of a head in the first column and indented lines.
func parseLibrary(text string) (*library, error) {
	made := &library{}
	lines := strings.Split(text, "\n")
	for at := 0; at < len(lines); at++ {
		if lines[at] == "" || strings.HasPrefix(lines[at], "//") {
			continue
		}
		found := head.FindStringSubmatch(lines[at])
		if found == nil {
			return nil, fmt.Errorf("line %d: expected name(parameter, …) =, got %q", at+1, lines[at])
		}
		first := at + 1
		for at+1 < len(lines) && strings.HasPrefix(lines[at+1], " ") {
			at++
		}
		declared := &function{name: found[1], parameters: strings.Split(found[2], ", ")}
		if err := made.declare(declared, strings.Join(lines[first:at+1], "\n")); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", declared.name, first, err)
		}
	}
	return made, nil
}

func (l *library) declare(f *function, body string) error {
	if slices.ContainsFunc(l.functions, func(other *function) bool { return other.name == f.name }) {
		return errors.New("declared twice")
	}
	parsed, err := l.parse(body)
	if err != nil {
		return err
	}
	f.body = parsed.Expr()
	f.bound = boundVariables(f.body)
	for _, name := range identifiers(f.body) {
		if !slices.Contains(f.parameters, name) && !slices.Contains(f.bound, name) && !slices.Contains(types, name) {
			return fmt.Errorf("%q is not a parameter", name)
		}
	}
	l.functions = append(l.functions, f)
	return nil
}

// expand returns the rule with each call of a function replaced by its body.
func (l *library) expand(rule string) (string, error) {
	calls := func(f *function) bool { return strings.Contains(rule, f.name+"(") }
	if !slices.ContainsFunc(l.functions, calls) {
		return rule, nil
	}
	parsed, err := l.parse(rule)
	if err != nil {
		return "", err
	}
	return parser.Unparse(parsed.Expr(), parsed.SourceInfo(), parser.WrapOnColumn(100), parser.WrapAfterColumnLimit(false))
}

// unused returns the functions that no rule calls.
func (l *library) unused() []string {
	var names []string
	for _, f := range l.functions {
		if !f.called {
			names = append(names, f.name)
		}
	}
	return names
}

func (l *library) parse(text string) (*ast.AST, error) {
	macros := make([]parser.Macro, len(l.functions))
	for i, f := range l.functions {
		macros[i] = parser.NewGlobalMacro(f.name, len(f.parameters), f.expand)
	}
	made, err := parser.NewParser(parser.Macros(macros...))
	if err != nil {
		return nil, err
	}
	parsed, problems := made.Parse(common.NewTextSource(text))
	if len(problems.GetErrors()) > 0 {
		return nil, errors.New(problems.ToDisplayString())
	}
	return parsed, nil
}

// expand returns the body for one call. The parser calls it for each call of the function.
func (f *function) expand(helper parser.ExprHelper, _ ast.Expr, arguments []ast.Expr) (ast.Expr, *common.Error) {
	f.called = true
	for _, argument := range arguments {
		for _, name := range identifiers(argument) {
			if slices.Contains(f.bound, name) {
				return nil, helper.NewError(argument.ID(), fmt.Sprintf("%s has a variable %q of its own: rename one", f.name, name))
			}
		}
	}
	body := helper.Copy(f.body)
	ast.PostOrderVisit(body, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.IdentKind {
			return
		}
		if at := slices.Index(f.parameters, e.AsIdent()); at >= 0 {
			e.SetKindCase(helper.Copy(arguments[at]))
		}
	}))
	return body, nil
}

// types are identifiers that CEL defines.
var types = []string{"int", "string"}

func identifiers(expression ast.Expr) []string {
	var names []string
	ast.PostOrderVisit(expression, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.IdentKind {
			names = append(names, e.AsIdent())
		}
	}))
	return names
}

// boundVariables returns the first arguments of macros such as all(…).
func boundVariables(expression ast.Expr) []string {
	var names []string
	ast.PostOrderVisit(expression, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || !e.AsCall().IsMemberFunction() {
			return
		}
		call := e.AsCall()
		if slices.Contains([]string{"all", "exists", "exists_one", "map", "filter"}, call.FunctionName()) {
			names = append(names, call.Args()[0].AsIdent())
		}
	}))
	return names
}
