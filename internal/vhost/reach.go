package vhost

import "iter"

// Reach yields all names that are reachable from start, breadth first and each once, including start. next returns the names one
// step away.
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
