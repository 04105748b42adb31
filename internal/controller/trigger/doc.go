// Package trigger has what causes reconciliations: annotations that ask for one, times with jitter, predicates,
// priorities.
package trigger
