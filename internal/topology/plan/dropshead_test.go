package plan

import (
	"slices"
	"testing"

	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

func TestDropsMessages(t *testing.T) {
	t.Parallel()
	queue := func(kind string, arguments vhost.Arguments) vhost.Queue {
		arguments[vhost.ArgQueueType] = kind
		return vhost.Queue{Durable: true, Arguments: arguments}
	}
	policy := func(pattern, applyTo string, definition vhost.Arguments) []vhost.Policy {
		return []vhost.Policy{{Name: "limits", Pattern: vhost.ReadPattern(pattern), ApplyTo: applyTo, Definition: definition}}
	}
	const mayApply = " may apply (Warren cannot evaluate its pattern, or another policy has the same priority), in which case it"
	for name, test := range map[string]struct {
		queue    vhost.Queue
		policies []vhost.Policy
		want     string
	}{
		"no limit": {queue: queue("quorum", vhost.Arguments{})},
		"a length, and no overflow": {
			queue: queue("quorum", vhost.Arguments{vhost.ArgMaxLength: int64(5)}), want: `queue "orders" has x-max-length 5`,
		},
		"a length in bytes, and drop-head": {
			queue: queue("quorum", vhost.Arguments{vhost.ArgMaxLengthBytes: int64(5), vhost.ArgOverflow: "drop-head"}),
			want:  `queue "orders" has x-max-length-bytes 5`,
		},
		"it refuses messages": {queue: queue("quorum", vhost.Arguments{vhost.ArgMaxLength: int64(5), vhost.ArgOverflow: "reject-publish"})},
		"it dead-letters refused messages": {
			queue: queue("classic", vhost.Arguments{vhost.ArgMaxLength: int64(5), vhost.ArgOverflow: "reject-publish-dlx"}),
			want:  `queue "orders" has x-max-length 5`,
		},
		"a stream": {queue: queue("stream", vhost.Arguments{vhost.ArgMaxLengthBytes: int64(5)})},
		"a policy sets the length": {
			queue: queue("quorum", vhost.Arguments{}), policies: policy("^orders$", "queues", vhost.Arguments{vhost.KeyMaxLength: int64(5)}),
			want: `policy "limits" sets max-length 5 for queue "orders"`,
		},
		"a policy for classic queues sets the length of one": {
			queue: queue("classic", vhost.Arguments{}), policies: policy("^orders$", "classic_queues", vhost.Arguments{vhost.KeyMaxLength: int64(5)}),
			want: `policy "limits" sets max-length 5 for queue "orders"`,
		},
		"a policy has it drop messages": {
			queue:    queue("quorum", vhost.Arguments{vhost.ArgMaxLength: int64(5), vhost.ArgOverflow: "reject-publish"}),
			policies: policy("^orders$", "queues", vhost.Arguments{vhost.KeyOverflow: "drop-head"}),
			want:     `queue "orders" has x-max-length 5, and policy "limits" sets overflow drop-head`,
		},
		"so many policies that Warren does not try each pair": {
			queue: queue("quorum", vhost.Arguments{}), policies: slices.Repeat(policy("^[[:alpha:].]+$", "queues", nil), 1001),
			want: `too many policies may apply to queue "orders"`,
		},
		"a classic queue may not support the policy with the highest priority": {
			queue: queue("classic", vhost.Arguments{}),
			policies: []vhost.Policy{
				{Name: "attempts", Pattern: vhost.ReadPattern(""), Priority: 1, Definition: vhost.Arguments{vhost.KeyDeliveryLimit: int64(5)}},
				{Name: "limits", Pattern: vhost.ReadPattern(""), Definition: vhost.Arguments{vhost.KeyMaxLength: int64(5)}},
			},
			want: `policy "limits" sets max-length 5 for queue "orders"`,
		},
		"a policy that may match sets the length": {
			queue: queue("quorum", vhost.Arguments{}), policies: policy("^[[:alpha:].]+$", "queues", vhost.Arguments{vhost.KeyMaxLength: int64(5)}),
			want: `policy "limits"` + mayApply + ` sets max-length 5 for queue "orders"`,
		},
		"of two policies with the same priority, one has it drop messages": {
			queue: queue("quorum", vhost.Arguments{vhost.ArgMaxLength: int64(5), vhost.ArgOverflow: "reject-publish"}),
			policies: []vhost.Policy{
				{Name: "a", Pattern: vhost.ReadPattern(""), Definition: vhost.Arguments{vhost.KeyMessageTTL: int64(5)}},
				{Name: "z", Pattern: vhost.ReadPattern(""), Definition: vhost.Arguments{vhost.KeyOverflow: "drop-head"}},
			},
			want: `queue "orders" has x-max-length 5, and policy "z"` + mayApply + ` sets overflow drop-head`,
		},
		"a policy that may match sets a length, in place of a policy that refuses messages": {
			queue: queue("quorum", vhost.Arguments{}),
			policies: []vhost.Policy{
				{Name: "refuses", Pattern: vhost.ReadPattern(""), Definition: vhost.Arguments{
					vhost.KeyMaxLength: int64(9), vhost.KeyOverflow: "reject-publish",
				}},
				{Name: "z", Pattern: vhost.ReadPattern("^[[:alpha:].]+$"), Priority: 1, Definition: vhost.Arguments{vhost.KeyMaxLength: int64(5)}},
			},
			want: `policy "z"` + mayApply + ` sets max-length 5 for queue "orders"`,
		},
		"policies with the same priority that set neither a length nor overflow": {
			queue: queue("quorum", vhost.Arguments{vhost.ArgMaxLength: int64(5), vhost.ArgOverflow: "reject-publish"}),
			policies: []vhost.Policy{
				{Name: "a", Pattern: vhost.ReadPattern(""), Definition: vhost.Arguments{vhost.KeyMessageTTL: int64(5)}},
				{Name: "z", Pattern: vhost.ReadPattern(""), Definition: vhost.Arguments{vhost.KeyMessageTTL: int64(6)}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			why, drops := DropsMessages("orders", test.queue, test.policies)
			topologytest.Equal(t, "why", test.want, why)
			topologytest.Equal(t, "drops messages", test.want != "", drops)
		})
	}
}
