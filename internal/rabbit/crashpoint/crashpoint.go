// Package crashpoint ends operations in tests between two writes to the broker, as a crash of the manager would. Packages safedelete and
// recreate pass a step after each write. Production code leaves the Seam nil.
package crashpoint

import "errors"

// ErrCrashed ends an operation without undoing anything.
var ErrCrashed = errors.New("a test ended the operation between two steps")

// Seam receives the name of each completed step of an operation. If it returns false, the operation ends there. The nil Seam ends
// no operation.
type Seam func(step string) bool

// Pass returns ErrCrashed if the operation ends after the step.
func (s Seam) Pass(step string) error {
	if s != nil && !s(step) {
		return ErrCrashed
	}
	return nil
}
