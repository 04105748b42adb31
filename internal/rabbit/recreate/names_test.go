package recreate

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

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
			if id, ok := idOf(test.hold, test.queue); id != test.id && ok || ok != (test.id != "") {
				t.Errorf("got %q, %v", id, ok)
			}
		})
	}
}

func TestNewID(t *testing.T) {
	const owner = "shop/orders"
	id, again := NewID(owner), NewID(owner)
	if id == again || len(id) != idLength || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz234567") != "" {
		t.Errorf("got %q and %q", id, again)
	}
	if !IsIDOf(owner, id) || IsIDOf("shop/invoices", id) || IsIDOf("sho/porders", id) {
		t.Errorf("the owner of %q is not found", id)
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
	policies := func(definitions ...vhost.Arguments) (policies []vhost.Policy) {
		for _, definition := range definitions {
			policies = append(policies, vhost.Policy{Name: "p", Pattern: vhost.ReadPattern("^orders$"), ApplyTo: "queues", Definition: definition})
		}
		return policies
	}
	short, refuses := vhost.Arguments{vhost.KeyMaxLength: int64(10)}, vhost.Arguments{vhost.KeyOverflow: vhost.OverflowRejectPublish}
	outranked := policies(nil, short)
	outranked[0].Priority = 1
	unclear := policies(nil, short)
	unclear[1].Pattern, unclear[1].Priority = vhost.ReadPattern("^[[:alpha:].]+$"), 1
	ofOperator := policies(refuses, vhost.Arguments{vhost.KeyMaxLengthBytes: int64(5000)})
	ofOperator[1].Operator = true
	fenced := policies(short, vhost.Arguments{vhost.KeyMaxLength: int64(0), vhost.KeyOverflow: vhost.OverflowRejectPublish})
	fenced[1].Name, fenced[1].Priority = "warren-recreate-1-AAAAAA:mine:orders", 1
	hostile := slices.Repeat(policies(nil), 80)
	for i := range hostile {
		hostile[i].Operator, hostile[i].Definition = i%2 == 0, vhost.Arguments{vhost.KeyMessageTTL: int64(i)}
	}
	const refused = -1
	cases := map[string]struct {
		arguments vhost.Arguments
		policies  []vhost.Policy
		depth     int
	}{
		"no limit":                        {nil, nil, 0},
		"drops the oldest":                {vhost.Arguments{vhost.ArgMaxLength: int64(1000)}, nil, 800},
		"refuses the newest":              {vhost.Arguments{vhost.ArgMaxLength: int64(1000), vhost.ArgOverflow: vhost.OverflowRejectPublish}, nil, 0},
		"room for one":                    {vhost.Arguments{vhost.ArgMaxLength: int64(1)}, nil, 1},
		"room for none":                   {vhost.Arguments{vhost.ArgMaxLength: int64(0)}, nil, refused},
		"a limit of bytes":                {vhost.Arguments{vhost.ArgMaxLengthBytes: int64(1000)}, nil, refused},
		"an integer as int32":             {vhost.Arguments{vhost.ArgMaxLength: int32(100)}, nil, 80},
		"the highest number":              {vhost.Arguments{vhost.ArgMaxLength: int64(math.MaxInt64 - 1)}, nil, math.MaxInt32 * 4 / 5},
		"a policy":                        {nil, policies(short), 8},
		"the lower limit":                 {vhost.Arguments{vhost.ArgMaxLength: int64(1000)}, policies(short), 8},
		"a policy with a limit of bytes":  {nil, policies(vhost.Arguments{vhost.KeyMaxLengthBytes: int64(5000)}), refused},
		"a policy refuses the newest":     {vhost.Arguments{vhost.ArgMaxLength: int64(1000)}, policies(refuses), 0},
		"a policy refuses bytes":          {vhost.Arguments{vhost.ArgMaxLengthBytes: int64(1000)}, policies(refuses), 0},
		"an operator policy":              {nil, ofOperator, 0},
		"an outranked policy":             {nil, outranked, 0},
		"one of two equal policies":       {nil, policies(refuses, short), 8},
		"a policy that may match":         {nil, unclear, 8},
		"more policies than may be tried": {nil, hostile, refused},
		"a policy behind the fence":       {nil, fenced, 8},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := maxDepth("orders", test.arguments, test.policies)
			if ReasonOf(err) == LossyLength {
				got = refused
			}
			if got != test.depth {
				t.Errorf("%d, want %d: %v", got, test.depth, err)
			}
		})
	}
}

func TestDeadLetteringLike(t *testing.T) {
	policies := func(definitions ...vhost.Arguments) (list []vhost.Policy) {
		for _, definition := range definitions {
			list = append(list, vhost.Policy{Name: "p", Pattern: vhost.ReadPattern("^orders$"), ApplyTo: "queues", Definition: definition})
		}
		return list
	}
	toDead := vhost.Arguments{vhost.KeyDeadLetterExchange: "dead", vhost.KeyDeadLetterRoutingKey: "a"}
	atLeastOnceToDead := vhost.Arguments{
		vhost.KeyDeadLetterExchange: "dead", vhost.KeyDeadLetterStrategy: vhost.StrategyAtLeastOnce, vhost.KeyOverflow: vhost.OverflowRejectPublish,
	}
	for name, test := range map[string]struct {
		arguments vhost.Arguments
		policies  []vhost.Policy
		want      vhost.Arguments
	}{
		"nothing":  {},
		"a policy": {policies: policies(toDead), want: vhost.Arguments{vhost.ArgDeadLetterExchange: "dead", vhost.ArgDeadLetterRoutingKey: "a"}},
		"an argument outranks a policy": {
			arguments: vhost.Arguments{vhost.ArgDeadLetterRoutingKey: "b"}, policies: policies(toDead),
			want: vhost.Arguments{vhost.ArgDeadLetterExchange: "dead", vhost.ArgDeadLetterRoutingKey: "b"},
		},
		"the keys of one policy only": {
			policies: policies(vhost.Arguments{vhost.KeyDeadLetterExchange: "other"}, toDead), want: vhost.Arguments{vhost.ArgDeadLetterExchange: "other"},
		},
		"a policy with the routing key for an argument's exchange": {
			arguments: vhost.Arguments{vhost.ArgDeadLetterExchange: "dead"}, policies: policies(vhost.Arguments{vhost.KeyDeadLetterRoutingKey: "a"}),
			want: vhost.Arguments{vhost.ArgDeadLetterExchange: "dead", vhost.ArgDeadLetterRoutingKey: "a"},
		},
		"a policy with a routing key only": {policies: policies(vhost.Arguments{vhost.KeyDeadLetterRoutingKey: "a"})},
		"a policy, at least once": {policies: policies(atLeastOnceToDead), want: vhost.Arguments{
			vhost.ArgDeadLetterExchange: "dead", vhost.ArgDeadLetterStrategy: vhost.StrategyAtLeastOnce, vhost.ArgOverflow: vhost.OverflowRejectPublish,
		}},
		"a policy, at least once without its overflow": {
			policies: policies(vhost.Arguments{vhost.KeyDeadLetterExchange: "dead", vhost.KeyDeadLetterStrategy: vhost.StrategyAtLeastOnce}),
			want:     vhost.Arguments{vhost.ArgDeadLetterExchange: "dead"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			queue := topology.Queue{Name: "orders", Arguments: test.arguments}
			got := deadLetteringLike(queue, test.policies, vhost.Arguments{vhost.ArgQueueType: vhost.TypeQuorum})
			delete(got, vhost.ArgQueueType)
			if difference := cmp.Diff(test.want, got, cmpopts.EquateEmpty()); difference != "" {
				t.Error(difference)
			}
		})
	}
}
