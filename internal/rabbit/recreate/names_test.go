package recreate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

func of(queue string) Recreation {
	return Recreation{ID: "k3v9q2m7xa", Queue: topology.Queue{Name: queue}}
}

func TestNamesFitIntoRabbitMQ(t *testing.T) {
	longest := strings.Repeat("ä", vhost.MaxNameLength/2)
	for name, rec := range map[string]Recreation{"a short name": of("orders"), "the longest name": of(longest)} {
		t.Run(name, func(t *testing.T) {
			for _, own := range []string{rec.Hold(), rec.Backlog(), rec.probe(), rec.BacklogExchange(), rec.BackExchange()} {
				if len(own) > vhost.MaxNameLength || strings.ToValidUTF8(own, "") != own || !strings.Contains(own, rec.ID) {
					t.Errorf("%q has %d bytes", own, len(own))
				}
			}
		})
	}
}

func TestIDOf(t *testing.T) {
	longest := strings.Repeat("o", vhost.MaxNameLength)
	cases := map[string]struct {
		hold, queue string
		id          string
	}{
		"the hold of the queue":          {of("orders").Hold(), "orders", "k3v9q2m7xa"},
		"the backlog of the queue":       {of("orders").Backlog(), "orders", "k3v9q2m7xa"},
		"the hold of a long name":        {of(longest).Hold(), longest, "k3v9q2m7xa"},
		"the hold of another queue":      {of("orders.dlq").Hold(), "orders", ""},
		"a name with the same beginning": {of(longest).Hold(), longest[1:] + "p", ""},
		"the name with the hash":         {of(longest).Hold(), strings.TrimPrefix(of(longest).Hold(), vhost.PrefixHold+"k3v9q2m7xa."), ""},
		"the probe of the queue":         {of("orders").probe(), "orders", ""},
		"only the prefix":                {vhost.PrefixHold, "orders", ""},
		"an ID without a queue":          {vhost.PrefixHold + "k3v9q2m7xa", "orders", ""},
		"a queue of another program":     {"orders", "orders", ""},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			if id, ok := IDOf(test.hold, test.queue); id != test.id && ok || ok != (test.id != "") {
				t.Errorf("got %q, %v", id, ok)
			}
		})
	}
}

func TestUnionOfBindings(t *testing.T) {
	known := vhost.Binding{Source: "shop", Destination: "orders", RoutingKey: "a"}
	atHold := vhost.Binding{Source: "shop", Destination: "warren-hold-1.orders", RoutingKey: "a"}
	further := vhost.Binding{Source: "shop", Destination: "orders", RoutingKey: "b"}
	got := union([]vhost.Binding{known}, []vhost.Binding{atHold, further, further})
	if difference := cmp.Diff([]vhost.Binding{known, further}, got); difference != "" {
		t.Error(difference)
	}
}

func TestMaxDepthOfANewQueue(t *testing.T) {
	cases := map[string]struct {
		arguments vhost.Arguments
		depth     int
	}{
		"no limit":            {nil, 0},
		"drops the oldest":    {vhost.Arguments{vhost.ArgMaxLength: int64(1000)}, 800},
		"refuses the newest":  {vhost.Arguments{vhost.ArgMaxLength: int64(1000), vhost.ArgOverflow: vhost.OverflowRejectPublish}, 0},
		"room for one":        {vhost.Arguments{vhost.ArgMaxLength: int64(1)}, 1},
		"a limit of bytes":    {vhost.Arguments{"x-max-length-bytes": int64(1000)}, 0},
		"an integer as int32": {vhost.Arguments{vhost.ArgMaxLength: int32(100)}, 80},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			if got := maxDepth(test.arguments); got != test.depth {
				t.Errorf("%d, want %d", got, test.depth)
			}
		})
	}
}
