// Package gitenv provides Git repositories for tests, and the real controllers of Flux, which deliver from them to an API server. It is
// dot-imported beside testenv.
package gitenv

import (
	"context"

	. "github.com/warren-mq/warren/test/testenv"
)

func ctx() context.Context { return ContextOfSpec() }
