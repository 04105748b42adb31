// Package crashpoint is the seam for tests that end an operation between two external effects, as a crash of the manager would. Package
// safedelete and package recreate pass a step after each effect. Production code leaves the Seam nil.
package crashpoint

import "errors"

// ErrCrashed ends an operation without undoing anything.
var ErrCrashed = errors.New("a test ended the operation between two steps")

// Seam is called with the name of each step that an operation has just done. The operation ends there if it returns false. The nil Seam
// ends no operation.
type Seam func(step string) bool

// Pass returns ErrCrashed if the operation ends after the step.
func (s Seam) Pass(step string) error {
	if s != nil && !s(step) {
		return ErrCrashed
	}
	return nil
}
