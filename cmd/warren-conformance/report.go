package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// maxShown is how many mistakes of a pitfall are printed.
const maxShown = 6

// printReport prints one line for each pitfall, and one for each further mistake.
func printReport(out io.Writer, results []result) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RESULT\tPITFALL\tLOST\tREPEATED\tMISTAKE")
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
			fmt.Fprintf(table, "FAIL\t%s\t%d\t%d\t%s\n", r.pitfall.name, r.lost, r.repeated, r.mistakes[0])
			for _, mistake := range r.mistakes[1:min(len(r.mistakes), maxShown)] {
				fmt.Fprintf(table, "\t\t\t\t%s\n", mistake)
			}
			if more := len(r.mistakes) - maxShown; more > 0 {
				fmt.Fprintf(table, "\t\t\t\tand %d more\n", more)
			}
		default:
			fmt.Fprintf(table, "ok\t%s\t%d\t%d\t\n", r.pitfall.name, r.lost, r.repeated)
		}
		tried++
	}
	_ = table.Flush() // out is stdout or a buffer
	fmt.Fprintf(out, "%d of %d pitfalls failed\n", failed, tried)
}

func printPitfalls(out io.Writer) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PITFALL\tRULE\tMISTAKE")
	for _, p := range pitfalls {
		fmt.Fprintf(table, "%s\t%s\ta program that %s\n", p.name, p.rules, p.mistake)
	}
	_ = table.Flush()
}
