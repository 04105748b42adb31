package transfer

import (
	"testing"

	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// A transfer begins with few messages at a time, and goes on with many on another channel. When the connection is cut, the acknowledgements
// on both may be lost.
func TestCapacity(t *testing.T) {
	t.Parallel()
	in := &intake{channels: []*intakeChannel{{prefetch: firstPrefetch}, {prefetch: maxWindow}}}
	topologytest.Equal(t, "capacity", firstPrefetch+maxWindow, in.capacity())
}
