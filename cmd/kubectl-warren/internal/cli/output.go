package cli

import (
	"bytes"
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
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

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
}

func addOutput(cmd *cobra.Command, allowed ...string) *output {
	o := &output{format: formatTable, allowed: allowed}
	cmd.Flags().StringVarP(&o.format, "output", "o", formatTable, "one of "+strings.Join(allowed, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
	return o
}

func (o *output) validate() error {
	if !slices.Contains(o.allowed, o.format) {
		return usageError("--output is %q: want one of %s", o.format, strings.Join(o.allowed, ", "))
	}
	return nil
}

// printed prints a value as JSON or YAML, and says whether that was asked for.
func (o *output) printed(out io.Writer, value any) (bool, error) {
	switch o.format {
	case formatJSON:
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		return true, encoder.Encode(value)
	case formatYAML:
		text, err := yaml.Marshal(value)
		if err == nil {
			_, err = out.Write(text)
		}
		return true, err
	}
	return false, nil
}

// printedAnswer prints an answer of the dead-letter API, which is JSON, as printed does. Nothing is left out that this version does not
// know.
func (o *output) printedAnswer(out io.Writer, answer []byte) (bool, error) {
	switch o.format {
	case formatJSON:
		indented := &bytes.Buffer{}
		if err := json.Indent(indented, bytes.TrimSpace(answer), "", "  "); err != nil {
			return true, fmt.Errorf("the answer is no JSON: %w", err)
		}
		_, err := out.Write(append(printable.JSON(indented.Bytes()), '\n'))
		return true, err
	case formatYAML:
		text, err := yamlOf(answer)
		if err == nil {
			_, err = out.Write(text)
		}
		return true, err
	}
	return false, nil
}

// yamlOf returns JSON as YAML, which escapes what a terminal would not take for text. A YAML parser cannot read the JSON instead: it
// refuses the name of a header that takes more than 1024 characters.
func yamlOf(answer []byte) ([]byte, error) {
	var value any
	if err := utiljson.Unmarshal(answer, &value); err != nil {
		return nil, fmt.Errorf("the answer is no JSON: %w", err)
	}
	return goyaml.Marshal(value)
}

// colour is how a word is shown on a terminal.
type colour string

const (
	plain  colour = ""
	green  colour = "\x1b[32m"
	yellow colour = "\x1b[33m"
	red    colour = "\x1b[31m"
	faint  colour = "\x1b[2m"
	reset         = "\x1b[0m"
)

// isColoured says whether words are coloured: on a terminal, unless NO_COLOR is set (https://no-color.org).
func isColoured(out io.Writer) bool {
	return isTerminal(out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

type cell struct {
	text   string
	colour colour
}

// table is columns that are as wide as their widest cell.
type table struct {
	head     []string
	rows     [][]cell
	coloured bool
}

func newTable(coloured bool, head ...string) *table { return &table{head: head, coloured: coloured} }

func (t *table) add(cells ...cell) { t.rows = append(t.rows, cells) }

func text(value string) cell { return cell{text: value} }

func (t *table) print(out io.Writer) error {
	rows := make([][]cell, 0, len(t.rows)+1)
	if len(t.head) > 0 {
		head := make([]cell, len(t.head))
		for i, name := range t.head {
			head[i] = text(name)
		}
		rows = append(rows, head)
	}
	rows = append(rows, t.rows...)
	widths := widthsOf(rows)
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

// line renders a row. The last cell that is not empty has no spaces after it.
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

func printf(out io.Writer, format string, values ...any) {
	_, _ = fmt.Fprintf(out, format, values...)
}
