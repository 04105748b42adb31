package consumerqueue

import (
	"slices"
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// Who has something at stake with whom is found from both sides, and thousands that merely listen to one exchange are
// not found at all.
func TestStakes(t *testing.T) {
	t.Parallel()
	orphan := v1alpha1.ConsumerQueueStatus{Topology: []v1alpha1.TopologyEntry{
		{Kind: v1alpha1.KindQueue, Name: "old", Role: v1alpha1.RoleDelayTier, Origin: v1alpha1.OriginDeclared},
		{Kind: v1alpha1.KindExchange, Name: "past", Role: v1alpha1.RoleRetry, Origin: v1alpha1.OriginDeclared},
		{Kind: v1alpha1.KindExchange, Name: "source", Role: v1alpha1.RoleSource, Origin: v1alpha1.OriginDeclared},
	}}
	for name, test := range map[string]struct {
		one, other string
		status     v1alpha1.ConsumerQueueStatus
		want       bool
	}{
		"nothing in common":                    {one: `{}`, other: `{queue: {name: other}}`},
		"the main queue":                       {one: `{queue: {name: q}}`, other: `{queue: {name: q}}`, want: true},
		"a dead-letter queue that is a tier":   {one: `{deadLetter: {queue: {name: q}}}`, other: `{retry: {delayTiers: [{delay: 1s, queueName: q}]}}`, want: true},
		"the dead-letter exchange":             {one: `{deadLetter: {exchange: {name: x}}}`, other: `{deadLetter: {exchange: {name: x}}}`, want: true},
		"a source of one type":                 {one: `{bindings: [{exchange: {name: x, type: topic}}]}`, other: `{bindings: [{exchange: {name: x, type: topic}}]}`},
		"a source of two types":                {one: `{bindings: [{exchange: {name: x, type: topic}}]}`, other: `{bindings: [{exchange: {name: x, type: direct}}]}`, want: true},
		"a source that one has no type for":    {one: `{bindings: [{exchange: {name: x, type: topic}}]}`, other: `{bindings: [{exchange: {name: x}}]}`},
		"a source that is a retry exchange":    {one: `{bindings: [{exchange: {name: x, type: topic}}]}`, other: `{retry: {exchange: {name: x}}}`, want: true},
		"a queue that has left the spec":       {one: `{queue: {name: old}}`, other: `{}`, status: orphan, want: true},
		"an exchange that has left the spec":   {one: `{retry: {exchange: {name: past}}}`, other: `{}`, status: orphan, want: true},
		"a source that has left the spec":      {one: `{retry: {exchange: {name: source}}}`, other: `{}`, status: orphan},
		"an exchange with the name of a queue": {one: `{queue: {name: x}}`, other: `{retry: {exchange: {name: x}}}`},
	} {
		one, other := controllertest.Named(t, "shop", "one", test.one), controllertest.Named(t, "shop", "other", test.other)
		other.Status = test.status
		meet := func(a, b *v1alpha1.ConsumerQueue) bool {
			return slices.ContainsFunc(ownershipKeysOf(a).conflictKeys(), func(key string) bool { return slices.Contains(ownershipKeysOf(b).indexKeys(), key) })
		}
		topologytest.Equal(t, name, test.want, meet(one, other))
		topologytest.Equal(t, name+", seen from the other side", test.want, meet(other, one))
	}
}
