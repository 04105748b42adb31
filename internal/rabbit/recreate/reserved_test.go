package recreate

import (
	"slices"
	"strings"
	"testing"

	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// A ConsumerQueue must not have the name of an object of a recreation, or of a match queue, which shows whether two addresses lead to one
// broker.
func TestOwnNamesAreReserved(t *testing.T) {
	t.Parallel()
	r := Recreation{ID: NewID("shop/orders"), Queue: topology.Queue{Name: "orders"}}
	for _, name := range []string{r.Hold(), r.Backlog(), r.BacklogExchange(), r.BackExchange(), r.probe(), management.MatchQueue + "x"} {
		if !slices.ContainsFunc(vhost.OwnPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			t.Errorf("%q is not reserved", name)
		}
	}
}
