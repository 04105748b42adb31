package cli

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	goyaml "go.yaml.in/yaml/v2"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/printable"
)

// The formats of -o.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatYAML  = "yaml"
	formatName  = "name"
)

// output is the flag -o of a command.
type output struct {
	format  string
	allowed []string
	// template is set by validate if the format is a template.
	template printers.ResourcePrinter
}

// addOutput adds the flag -o, and checks its value before the command runs.
func addOutput(cmd *cobra.Command, allowed ...string) *output {
	o := &output{format: formatTable, allowed: allowed}
	cmd.Flags().StringVarP(&o.format, "output", "o", formatTable, "one of "+strings.Join(o.formats(), ", "))
	cmd.PreRunE = func(*cobra.Command, []string) error { return o.validate() }
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
	return o
}

// formats returns the values of -o. A command that prints JSON also accepts kubectl's templates.
func (o *output) formats() []string {
	if !slices.Contains(o.allowed, formatJSON) {
		return o.allowed
	}
	return append(slices.Clip(o.allowed), "jsonpath=TEMPLATE", "go-template=TEMPLATE")
}

func (o *output) validate() error {
	if slices.Contains(o.allowed, o.format) {
		return nil
	}
	if slices.Contains(o.allowed, formatJSON) {
		template, err := genericclioptions.NewKubeTemplatePrintFlags().ToPrinter(o.format)
		if err == nil {
			o.template = template
			return nil
		}
		if !genericclioptions.IsNoCompatiblePrinterError(err) {
			return usageError("--output: %w", err)
		}
	}
	return usageError("--output is %q: must be one of %s", o.format, strings.Join(o.formats(), ", "))
}

// printed prints a value as JSON, as YAML or with a template. It returns false if the format is none of these.
func (o *output) printed(out io.Writer, value any) (bool, error) {
	content := &bytes.Buffer{}
	encoder := json.NewEncoder(content)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return true, err
	}
	return o.printedAnswer(out, content.Bytes())
}

// printedAnswer is like printed, for a value that is JSON already, such as a response of the dead-letter API. It keeps fields that this
// version does not know.
func (o *output) printedAnswer(out io.Writer, answer []byte) (bool, error) {
	switch {
	case o.format == formatJSON:
		indented := &bytes.Buffer{}
		if err := json.Indent(indented, bytes.TrimSpace(answer), "", "  "); err != nil {
			return true, fmt.Errorf("the response is not JSON: %w", err)
		}
		_, err := out.Write(append(printable.JSON(indented.Bytes()), '\n'))
		return true, err
	case o.format == formatYAML:
		text, err := yamlOf(answer)
		if err == nil {
			_, err = out.Write(text)
		}
		return true, err
	case o.template != nil:
		return true, o.printTemplate(out, answer)
	}
	return false, nil
}

func (o *output) printTemplate(out io.Writer, answer []byte) error {
	var value any
	if err := utiljson.Unmarshal(answer, &value); err != nil {
		return fmt.Errorf("the response is not JSON: %w", err)
	}
	fields, isObject := value.(map[string]any)
	if !isObject {
		fields = map[string]any{"items": value}
	}
	result := &bytes.Buffer{}
	if err := o.template.PrintObj(&unstructured.Unstructured{Object: fields}, result); err != nil {
		return err
	}
	printf(out, "%s", result)
	return nil
}

// yamlOf converts JSON to YAML, and escapes terminal control characters. It does not parse the JSON as YAML, because a YAML
// parser refuses keys of more than 1024 characters.
func yamlOf(answer []byte) ([]byte, error) {
	var value any
	if err := utiljson.Unmarshal(answer, &value); err != nil {
		return nil, fmt.Errorf("the response is not JSON: %w", err)
	}
	marker := "\x01" + rand.Text()
	text, err := goyaml.Marshal(marked(value, marker))
	return printable.QuotedYAML(bytes.ReplaceAll(text, []byte(`\x01`+marker[1:]), nil)), err
}

// marked appends a marker to each text that needs escapes. The marker has a control character, so goyaml puts the text in double quotes.
// YAML has escapes only in double quotes. A text that begins with a byte order mark needs no marker, because goyaml escapes it anyway. The
// text << needs one, because YAML merges maps at an unquoted <<.
func marked(value any, marker string) any {
	switch value := value.(type) {
	case string:
		if value == "<<" || !printable.IsText(value) && !strings.HasPrefix(value, "\ufeff") {
			return value + marker
		}
	case []any:
		for i := range value {
			value[i] = marked(value[i], marker)
		}
	case map[string]any:
		all := make(map[string]any, len(value))
		for name, field := range value {
			name, _ = marked(name, marker).(string)
			all[name] = marked(field, marker)
		}
		return all
	}
	return value
}

// colour is the colour of a word on a terminal.
type colour string

const (
	plain  colour = ""
	green  colour = "\x1b[32m"
	yellow colour = "\x1b[33m"
	red    colour = "\x1b[31m"
	faint  colour = "\x1b[2m"
	reset         = "\x1b[0m"
)

// isColoured reports whether words are coloured: on a terminal, unless NO_COLOR is set (https://no-color.org).
func isColoured(out io.Writer) bool {
	return isTerminal(out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// widthOf returns the number of columns of a terminal, or 80 if unknown.
func widthOf(stream any) int {
	if file, ok := stream.(*os.File); ok {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return 80
}

type cell struct {
	text   string
	colour colour
}

// table has columns that are as wide as their widest cell.
type table struct {
	head     []string
	rows     [][]cell
	coloured bool
	// headPrinted is true if the head was printed before. It still counts for the width of the columns, so that rows are aligned.
	headPrinted bool
}

func newTable(coloured bool, head ...string) *table { return &table{head: head, coloured: coloured} }

// tableLayout is the layout of a list: with namespaces, with the columns of -o wide, and with a head.
type tableLayout struct{ namespaces, wide, head, coloured bool }

// newTable returns a table with these columns, and further columns for -o wide.
func (l tableLayout) newTable(head []string, wide ...string) *table {
	if l.namespaces {
		head = append([]string{"NAMESPACE"}, head...)
	}
	if l.wide {
		head = append(head, wide...)
	}
	t := newTable(l.coloured, head...)
	t.headPrinted = !l.head
	return t
}

func (l tableLayout) row(namespace string, cells []cell, wide ...cell) []cell {
	if l.namespaces {
		cells = append([]cell{cellOf(namespace)}, cells...)
	}
	if l.wide {
		cells = append(cells, wide...)
	}
	return cells
}

// add adds a row. It escapes terminal control characters, because cells may contain text from a broker.
func (t *table) add(cells ...cell) {
	for i := range cells {
		cells[i].text = printable.Text(cells[i].text)
	}
	t.rows = append(t.rows, cells)
}

func cellOf(value string) cell { return cell{text: value} }

func (t *table) print(out io.Writer) error {
	rows := make([][]cell, 0, len(t.rows)+1)
	if len(t.head) > 0 {
		head := make([]cell, len(t.head))
		for i, name := range t.head {
			head[i] = cellOf(name)
		}
		rows = append(rows, head)
	}
	rows = append(rows, t.rows...)
	widths := widthsOf(rows)
	if t.headPrinted {
		rows = t.rows
	}
	var lines strings.Builder
	for _, row := range rows {
		lines.WriteString(t.line(row, widths))
	}
	_, err := io.WriteString(out, lines.String())
	return err
}

func widthsOf(rows [][]cell) []int {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell.text))
		}
	}
	return widths
}

// line formats a row without trailing spaces.
func (t *table) line(row []cell, widths []int) string {
	last := len(row)
	for last > 0 && row[last-1].text == "" {
		last--
	}
	var line strings.Builder
	for i, cell := range row[:last] {
		if t.coloured && cell.colour != plain {
			line.WriteString(string(cell.colour) + cell.text + reset)
		} else {
			line.WriteString(cell.text)
		}
		if i < last-1 {
			line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell.text)+3))
		}
	}
	return line.String() + "\n"
}

// printf prints sentences. It escapes terminal control characters except line feeds and tabs, because names and messages may come
// from a broker.
func printf(out io.Writer, format string, values ...any) {
	sentences := fmt.Sprintf(format, values...)
	escaped := strings.Join(printable.Lines(sentences), "\n")
	if strings.HasSuffix(sentences, "\n") {
		escaped += "\n"
	}
	_, _ = io.WriteString(out, escaped)
}
