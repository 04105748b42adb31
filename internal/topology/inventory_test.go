package topology_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

func TestOwned(t *testing.T) {
	t.Parallel()
	binding := v1alpha1.TopologyEntry{Kind: v1alpha1.KindBinding, Source: "events", Destination: "orders"}
	ours, foreign := binding, binding
	ours.Role, foreign.State = v1alpha1.RoleSource, v1alpha1.StateForeign
	queue := func(origin v1alpha1.Origin, hash string) v1alpha1.TopologyEntry {
		return v1alpha1.TopologyEntry{Kind: v1alpha1.KindQueue, Name: "orders", Role: v1alpha1.RoleMain, Origin: origin, LastSyncedHash: hash}
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
		topologytest.Equal(t, name, test.want, len(topology.Owned([]v1alpha1.TopologyEntry{test.entry})) == 1)
		both := []v1alpha1.TopologyEntry{test.entry, {Kind: v1alpha1.KindBinding, Name: "own", Role: v1alpha1.RoleMain}}
		topologytest.Equal(t, name+", to read only", topology.Owned(both), topology.OwnedView(both))
	}
	entries := []v1alpha1.TopologyEntry{queue("", ""), ours, foreign}
	topology.Owned(entries)
	topologytest.Equal(t, "the list that was given", []v1alpha1.TopologyEntry{queue("", ""), ours, foreign}, entries)
}

func TestSplitByOrigin(t *testing.T) {
	t.Parallel()
	object := func(kind v1alpha1.ObjectKind, name string, origin v1alpha1.Origin) v1alpha1.TopologyEntry {
		return v1alpha1.TopologyEntry{Kind: kind, Name: name, Origin: origin}
	}
	binding := func(source, destination string) v1alpha1.TopologyEntry {
		return v1alpha1.TopologyEntry{Kind: v1alpha1.KindBinding, Source: source, Destination: destination}
	}
	declaredQueue, foundQueue := object(v1alpha1.KindQueue, "q", v1alpha1.OriginDeclared), object(v1alpha1.KindQueue, "found", v1alpha1.OriginAdopted)
	declaredExchange, foundExchange := object(v1alpha1.KindExchange, "x", v1alpha1.OriginDeclared), object(v1alpha1.KindExchange, "found", v1alpha1.OriginAdopted)
	unknown := object(v1alpha1.KindQueue, "unknown", "")
	both := []v1alpha1.TopologyEntry{binding("x", "q")}
	others := []v1alpha1.TopologyEntry{binding("x", "found"), binding("found", "q"), binding("found", "found"), binding("q", "x")}
	declared, found := topology.SplitByOrigin(slices.Concat(
		[]v1alpha1.TopologyEntry{declaredQueue, foundQueue, declaredExchange, foundExchange, unknown}, both, others))
	wantDeclared := append([]v1alpha1.TopologyEntry{declaredQueue, declaredExchange}, both...)
	wantFound := append([]v1alpha1.TopologyEntry{foundQueue, foundExchange, unknown}, others...)
	if difference := cmp.Diff(wantDeclared, declared); difference != "" {
		t.Errorf("declared (-want +got):\n%s", difference)
	}
	if difference := cmp.Diff(wantFound, found); difference != "" {
		t.Errorf("found (-want +got):\n%s", difference)
	}
}
