package mover

import (
	"testing"

	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// A move begins with a small prefetch, and continues with a large one on another channel. A cut connection may lose the
// acknowledgements on both channels.
func TestCapacity(t *testing.T) {
	t.Parallel()
	in := &intake{channels: []*intakeChannel{{prefetch: firstPrefetch}, {prefetch: maxWindow}}}
	topologytest.Equal(t, "capacity", firstPrefetch+maxWindow, in.capacity())
}
