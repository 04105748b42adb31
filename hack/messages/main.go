// Command messages writes the string literals of Go files for Vale, which reads only the comments of Go:
//
//	messages FOLDER FILE.go…
//
// FOLDER/FILE.go is HTML. It has the text of each literal in the line in which the literal begins.
package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "messages:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: messages FOLDER FILE.go…")
	}
	for _, file := range args[1:] {
		text, err := page(file)
		if err != nil {
			return err
		}
		target := filepath.Join(args[0], file)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(target, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// page returns the literals of a Go file. Literals that are added are one text, with X for the other operands.
func page(file string) (string, error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, nil, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	lines := make([]string, files.Position(parsed.FileEnd).Line)
	var visit func(ast.Node) bool
	var join func(ast.Expr) string
	join = func(operand ast.Expr) string {
		switch operand := operand.(type) {
		case *ast.BasicLit:
			if text, err := strconv.Unquote(operand.Value); err == nil && operand.Kind == token.STRING {
				return text
			}
		case *ast.BinaryExpr:
			if operand.Op == token.ADD {
				return join(operand.X) + join(operand.Y)
			}
		}
		ast.Inspect(operand, visit)
		return "X"
	}
	visit = func(node ast.Node) bool {
		literal, isLiteral := node.(*ast.BasicLit)
		sum, isBinary := node.(*ast.BinaryExpr)
		if isLiteral && literal.Kind == token.STRING || isBinary && sum.Op == token.ADD {
			lines[files.Position(node.Pos()).Line-1] += paragraphs(join(node.(ast.Expr)))
			return false
		}
		return true
	}
	ast.Inspect(parsed, visit)
	return strings.Join(lines, "\n"), nil
}

var (
	// indented are the lines of an example.
	indented = regexp.MustCompile(`(?m)^(?:  |\t).*$`)
	// code is the part of a text that counts as one word: code, a URL, a verb of Printf, or characters that HTML reserves.
	code = regexp.MustCompile("`[^`]*`|https?://\\S+|%[-+# 0]*(?:\\[\\d+\\])?[\\d.*]*[a-zA-Z]|[<>&]+")
)

// paragraphs returns the prose of a text as HTML in one line.
func paragraphs(text string) string {
	text = code.ReplaceAllString(indented.ReplaceAllString(text, "\n"), "X")
	return "<p>" + strings.ReplaceAll(strings.ReplaceAll(text, "\n\n", "</p><p>"), "\n", " ") + "</p>"
}
