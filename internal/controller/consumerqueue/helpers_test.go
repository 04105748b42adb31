package consumerqueue

import (
	"github.com/google/go-cmp/cmp"
)

// comparing returns an option that compares the unexported fields of a type.
func comparing[T any]() cmp.Option {
	var zero T
	return cmp.AllowUnexported(zero)
}

var comparingOccurrences = comparing[occurrence]()
