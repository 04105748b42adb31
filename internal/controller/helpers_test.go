package controller

import (
	"errors"

	"github.com/google/go-cmp/cmp"
)

// comparing looks into the unexported fields of a type.
func comparing[T any]() cmp.Option {
	var zero T
	return cmp.AllowUnexported(zero)
}

var comparingOccurrences = comparing[occurrence]()

// comparingErrors takes errors for equal that are one.
var comparingErrors = cmp.Comparer(func(a, b error) bool { return errors.Is(a, b) && errors.Is(b, a) })
