package vhost

import "iter"

// Reach yields what can be reached from start, step by step: the nearest first, each name once, start included. next lists
// where one step leads.
func Reach(start []string, next func(name string) []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		seen := map[string]bool{}
		var open []string
		visit := func(names []string) {
			for _, name := range names {
				if !seen[name] {
					seen[name] = true
					open = append(open, name)
				}
			}
		}
		for visit(start); len(open) > 0; open = open[1:] {
			if !yield(open[0]) {
				return
			}
			visit(next(open[0]))
		}
	}
}
