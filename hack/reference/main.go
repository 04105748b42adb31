// Command reference prints a page of docs/reference: reference arguments|flags|metrics. The pages are templates beside it. Their data
// are the tables that the manager uses. The page of flags also reads the manifests that users apply from stdin.
package main

import (
	"embed"
	"fmt"
	"os"
	"strings"
	"text/template"

	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/topology"
)

//go:embed *.md.tmpl
var templates embed.FS

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: reference arguments|flags|metrics")
		os.Exit(2)
	}
	if err := printPage(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

func printPage(name string) (err error) {
	var data any = topology.ArgumentTable
	switch name {
	case "flags":
		if data, err = readFlags(os.Stdin); err != nil {
			return err
		}
	case "metrics":
		data = metrics.Definitions()
	}
	functions := template.FuncMap{"code": code, "fields": fields, "join": strings.Join, "meaning": meaning}
	page, err := template.New(name).Funcs(functions).ParseFS(templates, name+".md.tmpl")
	if err != nil {
		return err
	}
	return page.ExecuteTemplate(os.Stdout, name+".md.tmpl", data)
}

// fields formats the fields of an argument. Text in brackets is no field.
func fields(list string) string {
	if strings.HasPrefix(list, "(") {
		return strings.Trim(list, "()")
	}
	return "`" + strings.ReplaceAll(list, ", ", "`, `") + "`"
}

// code formats a value for a table; nothing if it is empty.
func code(value string) string {
	if value == "" {
		return ""
	}
	return "`" + strings.ReplaceAll(value, "|", `\|`) + "`" // an unescaped | would begin the next cell
}

// meaning formats the usage of a flag in one line for a table.
func meaning(usage string) string {
	return strings.NewReplacer("\n", " ", "|", `\|`, "<", "&lt;").Replace(strings.Join(strings.Fields(usage), " "))
}
