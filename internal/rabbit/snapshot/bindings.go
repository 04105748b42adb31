package snapshot

import (
	"slices"

	"github.com/warren-mq/warren/internal/vhost"
)

// BindingsTo lists the bindings of a queue.
func (s *Snapshot) BindingsTo(queue string) []vhost.Binding { return slices.Clip(s.bindingsTo[queue]) }
