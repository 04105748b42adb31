package main

import (
	"fmt"
	"html"
	"strconv"
	"strings"
)

// The grid of panels, in pixels.
const (
	columns     = 3
	panelWidth  = 440
	panelHeight = 250
	chartLeft   = 56
	chartTop    = 34
	chartWidth  = panelWidth - chartLeft - 16
	chartHeight = 120
	legendLines = 5
)

var colours = []string{"#7eb26d", "#eab839", "#6ed0e0", "#ef843c", "#e24d42", "#1f78c1", "#ba43a9", "#705da0", "#508642", "#cca300"}

// draw returns an SVG of all panels.
func draw(panels []*panel) string {
	var text strings.Builder
	rows := (len(panels) + columns - 1) / columns
	fmt.Fprintf(&text, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" `, columns*panelWidth, rows*panelHeight)
	text.WriteString(`font-family="sans-serif" font-size="11" fill="#d8d9da">` + "\n")
	text.WriteString(`<rect width="100%" height="100%" fill="#111217"/>` + "\n")
	first, last := span(panels)
	for i, p := range panels {
		fmt.Fprintf(&text, `<g transform="translate(%d %d)">`+"\n", i%columns*panelWidth, i/columns*panelHeight)
		p.draw(&text, first, last)
		text.WriteString("</g>\n")
	}
	text.WriteString("</svg>\n")
	return text.String()
}

// span returns the time range of all panels.
func span(panels []*panel) (first, last float64) {
	for _, p := range panels {
		for _, l := range p.lines {
			for _, at := range l.points {
				if first == 0 || at.at < first {
					first = at.at
				}
				last = max(last, at.at)
			}
		}
	}
	return first, max(last, first+1)
}

func (p *panel) draw(text *strings.Builder, first, last float64) {
	top := p.highest()
	fmt.Fprintf(text, `<rect x="4" y="4" width="%d" height="%d" rx="3" fill="#181b1f" stroke="#2c3235"/>`+"\n", panelWidth-8, panelHeight-8)
	fmt.Fprintf(text, `<text x="14" y="23" font-size="13" font-weight="bold">%s</text>`+"\n", html.EscapeString(p.title))
	for _, part := range []float64{0, 0.5, 1} {
		y := chartTop + chartHeight*(1-part)
		fmt.Fprintf(text, `<path d="M%d %.1fh%d" stroke="#2c3235"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n",
			chartLeft, y, chartWidth, chartLeft-6, y+4, short(top*part))
	}
	for i, l := range p.lines {
		var path strings.Builder
		for _, at := range l.points {
			x, y := chartLeft+chartWidth*(at.at-first)/(last-first), chartTop+chartHeight*(1-at.value/top)
			fmt.Fprintf(&path, "%.1f,%.1f ", x, y)
		}
		colour := colours[i%len(colours)]
		points := strings.TrimSpace(path.String())
		fmt.Fprintf(text, `<polyline points="%s" fill="none" stroke="%s" stroke-width="1.5"/>`+"\n", points, colour)
		if i < legendLines {
			y := chartTop + chartHeight + 18 + 14*i
			fmt.Fprintf(text, `<path d="M14 %dh14" stroke="%s" stroke-width="3"/><text x="34" y="%d">%s</text>`+"\n",
				y-4, colour, y, html.EscapeString(l.name))
		}
	}
	if more := len(p.lines) - legendLines; more > 0 {
		fmt.Fprintf(text, `<text x="%d" y="23" text-anchor="end">and %d more</text>`+"\n", panelWidth-14, more)
	}
}

func (p *panel) highest() float64 {
	top := 0.0
	for _, l := range p.lines {
		for _, at := range l.points {
			top = max(top, at.value)
		}
	}
	if top == 0 {
		return 1
	}
	return top
}

// short formats a number with few digits.
func short(value float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if value >= unit.size {
			return strconv.FormatFloat(value/unit.size, 'g', 3, 64) + unit.name
		}
	}
	return strconv.FormatFloat(value, 'g', 3, 64)
}
