// Package gitenv provides Git repositories for tests, and the real controllers of Flux, which deliver from them to an API server. It is
// dot-imported beside testenv.
package gitenv

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
)

// ctx ends with the test.
func ctx() context.Context { return ContextOfSpec() }
