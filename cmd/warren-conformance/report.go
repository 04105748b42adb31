package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// maxShown is how many mistakes of one pitfall are printed.
const maxShown = 6

// printReport prints a line for each pitfall, and one more for each further mistake.
func printReport(out io.Writer, results []result) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RESULT\tPITFALL\tLOST\tREPEATED\tWHAT WAS SEEN")
	failed, tried := 0, 0
	for _, r := range results {
		switch {
		case r.skipped != "":
			fmt.Fprintf(table, "-\t%s\t\t\t%s\n", r.pitfall.name, r.skipped)
			continue
		case r.err != nil:
			fmt.Fprintf(table, "ERROR\t%s\t\t\t%v\n", r.pitfall.name, r.err)
			continue
		case r.failed():
			failed++
			fmt.Fprintf(table, "FAIL\t%s\t%d\t%d\t%s\n", r.pitfall.name, r.lost, r.repeated, r.seen[0])
			for _, mistake := range r.seen[1:min(len(r.seen), maxShown)] {
				fmt.Fprintf(table, "\t\t\t\t%s\n", mistake)
			}
			if more := len(r.seen) - maxShown; more > 0 {
				fmt.Fprintf(table, "\t\t\t\tand %d more\n", more)
			}
		default:
			fmt.Fprintf(table, "ok\t%s\t%d\t%d\t\n", r.pitfall.name, r.lost, r.repeated)
		}
		tried++
	}
	_ = table.Flush() // a report that cannot be printed has no reader
	fmt.Fprintf(out, "%d of %d pitfalls failed\n", failed, tried)
}

// printPitfalls lists the table.
func printPitfalls(out io.Writer) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, p := range pitfalls {
		fmt.Fprintf(table, "%s\ta program that %s\n", p.name, p.mistake)
	}
	_ = table.Flush()
}
