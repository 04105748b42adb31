package topology_test

import (
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
)

func TestOwned(t *testing.T) {
	t.Parallel()
	binding := v1alpha1.TopologyEntry{Kind: v1alpha1.KindBinding, Source: "events", Destination: "orders"}
	ours, foreign := binding, binding
	ours.Role, foreign.State = v1alpha1.RoleSource, v1alpha1.StateForeign
	queue := func(origin v1alpha1.Origin, shape string) v1alpha1.TopologyEntry {
		return v1alpha1.TopologyEntry{Kind: v1alpha1.KindQueue, Name: "orders", Role: v1alpha1.RoleMain, Origin: origin, Shape: shape}
	}
	for name, test := range map[string]struct {
		entry v1alpha1.TopologyEntry
		want  bool
	}{
		"declared, and seen as wanted":         {queue(v1alpha1.OriginDeclared, "abc"), true},
		"declared, or about to be":             {queue(v1alpha1.OriginDeclared, ""), true},
		"found just as wanted":                 {queue(v1alpha1.OriginAdopted, "abc"), true},
		"found otherwise: it is somebody's":    {queue(v1alpha1.OriginAdopted, ""), false},
		"not there, and not to be declared":    {queue("", ""), false},
		"a binding":                            {ours, true},
		"a binding that nobody asked for here": {foreign, false},
	} {
		equal(t, name, test.want, len(topology.Owned([]v1alpha1.TopologyEntry{test.entry})) == 1)
	}
	entries := []v1alpha1.TopologyEntry{queue("", ""), ours, foreign}
	topology.Owned(entries)
	equal(t, "the list that was given", []v1alpha1.TopologyEntry{queue("", ""), ours, foreign}, entries)
}

func TestNamesWithWhatIsOwned(t *testing.T) {
	t.Parallel()
	names := topology.Names{Queues: []string{"orders", "dlq"}, Exchanges: []string{"dlx"}, Route: "back", Surroundings: true}
	got := names.With([]v1alpha1.TopologyEntry{
		{Kind: v1alpha1.KindExchange, Name: "dead"},
		{Kind: v1alpha1.KindQueue, Name: "dlq"},
		{Kind: v1alpha1.KindQueue, Name: "old"},
		{Kind: v1alpha1.KindBinding, Source: "events", Destination: "elsewhere"},
	})
	equal(t, "names", topology.Names{
		Queues: []string{"dlq", "elsewhere", "old", "orders"}, Exchanges: []string{"dead", "dlx", "events"}, Route: "back", Surroundings: true,
	}, got)
	equal(t, "the names that were given", []string{"orders", "dlq"}, names.Queues)
}
