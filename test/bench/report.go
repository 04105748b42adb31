package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// The results are between these lines of a page.
const (
	beginMarker = "<!-- make bench writes from here -->"
	endMarker   = "<!-- to here -->"
)

// report is the result of the benchmark.
type report struct {
	began   time.Time
	machine machine
	rows    []row
}

// markdown renders the report.
func (r *report) markdown() string {
	var text strings.Builder
	r.writeMachine(&text)
	r.writeTable(&text)
	r.writeGrowth(&text)
	r.writeBounds(&text)
	return strings.TrimSpace(text.String())
}

func (r *report) writeMachine(text *strings.Builder) {
	m := r.machine
	fmt.Fprintf(text, "Measured on %s in %s, at commit %s (manager %s), on %d cores", m.date, time.Since(r.began).Round(time.Minute),
		cmp.Or(m.commit, "unknown"), cmp.Or(m.manager, "unknown"), m.cores)
	if m.processor != "" {
		fmt.Fprintf(text, " (%s)", m.processor)
	}
	fmt.Fprintf(text, " and %.0f GiB of memory, with RabbitMQ %s (quorum queues tick every %v) on Erlang %s and Kubernetes %s, "+
		"all on this machine.\n\n", float64(m.memory)/(1<<30), m.rabbitMQ, m.tick, m.erlang, m.kubernetes)
}

func (r *report) writeTable(text *strings.Builder) {
	writeCells(text, "N", "layout", "phase", "s", "× bare", "× both bare", "ms each", "HTTP", "AMQP", "API writes", "Events",
		"manager CPU s", "API server CPU s", "broker CPU s", "others CPU s", "peak MiB", "notes")
	text.WriteString("| --: | --- | --- " + strings.Repeat("| --: ", 13) + "| --- |\n")
	for _, row := range r.rows {
		writes, events := row.writes.withoutEvents()
		cells := []string{
			fmt.Sprint(row.count), row.layout, row.phase, seconds(row.took), ratio(row.took, row.bare), row.bothBare(), row.each(),
			number(row.http), number(row.amqp), number(writes), number(events),
			seconds(row.cpu.manager), seconds(row.cpu.apiServer), seconds(row.cpu.broker), seconds(row.cpu.others()),
			mebibytes(row.peak), row.note,
		}
		if row.http == nil { // no manager ran
			for _, at := range []int{7, 8, 9, 10, 11} {
				cells[at] = ""
			}
		}
		writeCells(text, cells...)
	}
}

func writeCells(text *strings.Builder, cells ...string) {
	text.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

// each returns the time per ConsumerQueue, in milliseconds, of a phase that affects all of them.
func (r row) each() string {
	if !slices.Contains([]string{"bare declare", "bare delete", phaseBareAPI, phaseCreate, "restart", "delete"}, r.phase) {
		return ""
	}
	return fmt.Sprintf("%.1f", 1000*r.took.Seconds()/float64(r.count))
}

// bothBare compares a phase with the broker's and the API server's own times, added because they share the cores.
func (r row) bothBare() string {
	if r.bare == 0 || r.bareAPI == 0 {
		return ""
	}
	return ratio(r.took, r.bare+r.bareAPI)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f", d.Seconds()) }

func ratio(took, bare time.Duration) string {
	if bare == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", took.Seconds()/bare.Seconds())
}

func number(t counts) string { return fmt.Sprintf("%.0f", t.total()) }

func mebibytes(bytes int64) string {
	if bytes == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f", float64(bytes)/(1<<20))
}

// writeGrowth describes how costs grow with the number of ConsumerQueues, if several numbers were measured.
func (r *report) writeGrowth(text *strings.Builder) {
	var lines []string
	for _, layout := range r.layouts() {
		minCount, maxCount := r.extremes(layout)
		if minCount == maxCount {
			continue
		}
		lines = append(lines, fmt.Sprintf("- `%s`: %s. The manager's memory at its peak is %s.",
			layout, r.growth(layout, minCount, maxCount), r.memory(layout, minCount, maxCount)))
	}
	if len(lines) > 0 {
		text.WriteString("\nFrom the smallest number to the largest:\n\n" + strings.Join(lines, "\n") + "\n")
	}
}

// layouts returns the measured layouts.
func (r *report) layouts() []string {
	var names []string
	for _, row := range r.rows {
		if !slices.Contains(names, row.layout) {
			names = append(names, row.layout)
		}
	}
	return names
}

// extremes returns the smallest and the largest number of ConsumerQueues that were measured in a layout.
func (r *report) extremes(layout string) (minCount, maxCount int) {
	for _, row := range r.rows {
		if row.layout == layout {
			minCount, maxCount = cmp.Or(min(minCount, row.count), row.count), max(maxCount, row.count)
		}
	}
	return minCount, maxCount
}

// growth compares the time per ConsumerQueue.
func (r *report) growth(layout string, minCount, maxCount int) string {
	var parts []string
	for _, phase := range []string{"bare declare", phaseBareAPI, phaseCreate, "bare delete", "delete"} {
		few, many := r.find(layout, minCount, phase), r.find(layout, maxCount, phase)
		if few != nil && many != nil {
			each := (many.took.Seconds() / float64(maxCount)) / (few.took.Seconds() / float64(minCount))
			parts = append(parts, fmt.Sprintf("%s %.2f", phase, each))
		}
	}
	return fmt.Sprintf("the time for each at %d, compared with that at %d: %s", maxCount, minCount, strings.Join(parts, ", "))
}

func (r *report) find(layout string, count int, phase string) *row {
	at := slices.IndexFunc(r.rows, func(row row) bool { return row.layout == layout && row.count == count && row.phase == phase })
	if at < 0 {
		return nil
	}
	return &r.rows[at]
}

// memory describes how the manager's peak memory grows: a constant part, and a part per ConsumerQueue.
func (r *report) memory(layout string, minCount, maxCount int) string {
	var parts []string
	for _, phase := range []string{phaseCreate, "delete"} {
		few, many := r.find(layout, minCount, phase), r.find(layout, maxCount, phase)
		if few != nil && many != nil {
			each := float64(many.peak-few.peak) / float64(maxCount-minCount)
			itself := float64(few.peak) - float64(minCount)*each
			parts = append(parts, fmt.Sprintf("%.0f MiB and %.1f KiB for each during %s", itself/(1<<20), each/(1<<10), phase))
		}
	}
	return strings.Join(parts, ", ")
}

// writeBounds describes which part takes the time at the largest number.
func (r *report) writeBounds(text *strings.Builder) {
	text.WriteString("\n### What bounds each phase\n\n")
	fmt.Fprintf(text, "Shares of the time of all %d cores, at the largest number:\n\n", r.machine.cores)
	writeCells(text, "layout", "phase", "busy", "manager", "API server", "broker", "others", "requests to the broker",
		"writes to the API server")
	text.WriteString("| --- | --- | --: | --: | --: | --: | --: | --- | --- |\n")
	for _, row := range r.rows {
		if _, maxCount := r.extremes(row.layout); row.count != maxCount {
			continue
		}
		share := func(d time.Duration) string {
			return fmt.Sprintf("%.0f%%", 100*d.Seconds()/row.took.Seconds()/float64(r.machine.cores))
		}
		requests := strings.Trim(row.http.String()+"; "+row.amqp.String(), "; ")
		cells := []string{
			row.layout, row.phase, share(row.cpu.machine), share(row.cpu.manager), share(row.cpu.apiServer), share(row.cpu.broker),
			share(row.cpu.others()), requests, row.writes.String(),
		}
		writeCells(text, cells...)
	}
}

// writeTo replaces the text between the markers of a page.
func (r *report) writeTo(path string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	changed, err := replaceBetween(string(page), r.markdown())
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(changed), 0o644)
}

func replaceBetween(page, text string) (string, error) {
	before, rest, begins := strings.Cut(page, beginMarker)
	_, after, ends := strings.Cut(rest, endMarker)
	if !begins || !ends {
		return "", errors.New("the page does not contain " + beginMarker + " and " + endMarker)
	}
	return before + beginMarker + "\n\n" + text + "\n\n" + endMarker + after, nil
}
