// Command recording converts a terminal session that script(1) has recorded into an animated SVG: recording OUTPUT TIMING.
package main

import (
	"bufio"
	"fmt"
	"html"
	"os"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	width, lineHeight, margin = 900, 20, 20
	longestPause              = 3.0 // seconds
	rest                      = 5.0 // seconds for which the last frame is shown
)

// version is the text of a terminal line, and the time from which the line shows it.
type version struct {
	from float64
	text string
}

// terminal interprets the output of kubectl warren: text, line feeds, carriage returns, and the deletion to the end of a line.
type terminal struct {
	lines  [][]version
	column int
	cut    string // first bytes of a character whose other bytes follow in the next write
}

var escape = regexp.MustCompile(`^\x1b\[([0-9;?]*)([A-Za-z])`)

func (t *terminal) write(now float64, text string) {
	text = t.cut + text
	for utf8.FullRuneInString(text) {
		if found := escape.FindStringSubmatch(text); found != nil {
			if found[2] == "K" {
				line := []rune(t.current())
				t.set(now, string(line[:min(t.column, len(line))]))
			}
			text = text[len(found[0]):]
			continue
		}
		char, size := utf8.DecodeRuneInString(text)
		text = text[size:]
		switch char {
		case '\r':
			t.column = 0
		case '\n':
			t.lines, t.column = append(t.lines, nil), 0
		default:
			line := []rune(t.current())
			for len(line) <= t.column {
				line = append(line, ' ')
			}
			line[t.column] = char
			t.column++
			t.set(now, string(line))
		}
	}
	t.cut = text
}

func (t *terminal) current() string {
	if len(t.lines) == 0 {
		t.lines = append(t.lines, nil)
	}
	last := t.lines[len(t.lines)-1]
	if len(last) == 0 {
		return ""
	}
	return last[len(last)-1].text
}

func (t *terminal) set(now float64, text string) {
	line := &t.lines[len(t.lines)-1]
	if n := len(*line); n > 0 && (*line)[n-1].from == now {
		(*line)[n-1].text = text
		return
	}
	*line = append(*line, version{now, text})
}

// svg returns an animation that shows each version of a line for its time, and repeats.
func (t *terminal) svg(end float64) string {
	var text, style strings.Builder
	number := 0
	for i, line := range t.lines {
		for j, shown := range line {
			until := end
			if j+1 < len(line) {
				until = line[j+1].from
			}
			if strings.TrimSpace(shown.text) == "" {
				continue
			}
			number++
			fmt.Fprintf(&style, "@keyframes v%d{0%%{opacity:0}%.3f%%{opacity:1}%.3f%%{opacity:0}}\n#v%d{animation-name:v%d}\n",
				number, 100*shown.from/end, min(100*until/end, 100), number, number)
			fmt.Fprintf(&text, "<text id=\"v%d\" y=\"%d\"%s>%s</text>\n",
				number, margin+lineHeight*(i+1), class(shown.text), html.EscapeString(shown.text))
		}
	}
	height := 2*margin + lineHeight*len(t.lines)
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="A terminal with kubectl warren">
<style>
rect{fill:#101418}
text{font:14px ui-monospace,Menlo,Consolas,"Liberation Mono",monospace;fill:#e3e6ea;white-space:pre}
text{opacity:0;animation:%.2fs step-end infinite}
.typed{fill:#f08c4a}
%s</style>
<rect width="100%%" height="100%%" rx="10"/>
<g transform="translate(%d)">
%s</g>
</svg>
`, width, height, end, style.String(), margin, text.String())
}

func class(line string) string {
	if strings.HasPrefix(line, "$ ") {
		return ` class="typed"`
	}
	return ""
}

func run(output, timing string) error {
	logged, err := os.ReadFile(output)
	if err != nil {
		return err
	}
	_, text, _ := strings.Cut(string(logged), "\n") // script's own first line
	times, err := os.Open(timing)
	if err != nil {
		return err
	}
	defer times.Close()
	t := &terminal{}
	now := 0.0
	for scanner := bufio.NewScanner(times); scanner.Scan(); {
		pause, count, found := strings.Cut(scanner.Text(), " ")
		seconds, err1 := strconv.ParseFloat(pause, 64)
		size, err2 := strconv.Atoi(count)
		if !found || err1 != nil || err2 != nil || size > len(text) {
			return fmt.Errorf("%s: cannot read %q", timing, scanner.Text())
		}
		now += min(seconds, longestPause)
		t.write(now, text[:size])
		text = text[size:]
	}
	_, err = fmt.Print(t.svg(now + rest))
	return err
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: recording OUTPUT TIMING")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}
