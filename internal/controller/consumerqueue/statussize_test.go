package consumerqueue

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// A status has at most 512 KiB for any broker and spec. No exchange or queue is omitted within the schema's limits, omitted
// entries are counted, and the shown ones are valid.
func TestStatusStaysWithinItsSize(t *testing.T) {
	t.Parallel()
	type observation struct {
		entries    []v1alpha1.TopologyEntry
		comparison plan.Comparison
		message    string
	}
	drawn := rapid.Custom(func(t *rapid.T) observation {
		entries, comparison := anyEntries(t), plan.Comparison{}
		for range rapid.SampledFrom([]int{0, 1, 66}).Draw(t, "changes") {
			comparison.Changes = append(comparison.Changes, v1alpha1.Change{
				Kind: v1alpha1.KindBinding, Name: name(t), Source: name(t), Arguments: anyText(t), Path: anyText(t),
				Desired: anyText(t), Observed: anyText(t), Message: anyText(t), Effect: v1alpha1.EffectRecreate,
			})
			comparison.Advisories = append(comparison.Advisories, v1alpha1.Advisory{
				Code: v1alpha1.AdvisoryShadowedByPolicy, Name: name(t), Message: anyText(t),
			})
		}
		return observation{entries, comparison, anyText(t)}
	})
	for number := range examples {
		given := drawn.Example(number)
		entries, comparison := given.entries, given.comparison
		report := reportOn(&v1alpha1.ConsumerQueue{})
		report.setTopology(entries, comparison, plan.Plan{})
		long := conditions.True("Long", given.message)
		report.setConditions(summary{ready: conditions.False("Long", given.message), progress: conditions.Stalled, drifted: &long, recreation: &long})
		status, most := report.status, int64(math.MaxInt64)
		status.Messages = &v1alpha1.MessageCounts{Main: &most, Delayed: &most, DeadLettered: &most, AsOf: metav1.Now().Rfc3339Copy()}

		encoded, err := json.Marshal(status)
		if err != nil || len(encoded) > maxStatusBytes {
			t.Fatalf("%d bytes, %v", len(encoded), err)
		}
		again := v1alpha1.ConsumerQueueStatus{}
		if err := json.Unmarshal(encoded, &again); err != nil {
			t.Fatal(err)
		}
		if second, _ := json.Marshal(again); string(second) != string(encoded) {
			t.Error("the status changes by being written")
		}
		if len(status.Topology)+int(status.TopologyOmitted) != len(entries) ||
			len(status.Changes)+int(status.ChangesOmitted) != len(comparison.Changes) {
			t.Errorf("%d + %d of %d objects, %d + %d of %d changes", len(status.Topology), status.TopologyOmitted, len(entries),
				len(status.Changes), status.ChangesOmitted, len(comparison.Changes))
		}
		for _, entry := range entries {
			if entry.Kind == v1alpha1.KindQueue && !slices.Contains(status.Topology, entry) {
				t.Errorf("queue %q is omitted", entry.Name)
			}
		}
		for _, entry := range status.Topology {
			if len(entry.Source) > maxName || len(entry.RoutingKey) > maxName || len(entry.Arguments) > 65536 {
				t.Errorf("the API server refuses %+v", entry)
			}
		}
	}
}

// examples is the number of topologies that a test draws.
const examples = 12

// The inventory forgets the bindings of sources first.
func TestWhichBindingsAreOmitted(t *testing.T) {
	t.Parallel()
	var entries []v1alpha1.TopologyEntry
	for i := range 300 {
		entries = append(entries, v1alpha1.TopologyEntry{
			Kind: v1alpha1.KindBinding, Source: "events", Destination: "orders", RoutingKey: fmt.Sprint(i), Role: v1alpha1.RoleSource,
		})
	}
	rejected := v1alpha1.TopologyEntry{Kind: v1alpha1.KindBinding, Source: "dlx", Destination: "wait", Role: v1alpha1.RoleRetry}
	kept, omitted := truncated(append(entries, rejected))
	topologytest.Equal(t, "kept", append([]v1alpha1.TopologyEntry{rejected}, entries[:v1alpha1.MaxTopologyEntries-1]...), kept)
	topologytest.Equal(t, "omitted", 301-v1alpha1.MaxTopologyEntries, int(omitted))
}

// anyEntries draws the objects of one topology: up to 80 queues, bindings with arguments as large as a spec can have, and
// foreign bindings of any size.
func anyEntries(t *rapid.T) []v1alpha1.TopologyEntry {
	var entries []v1alpha1.TopologyEntry
	for range rapid.IntRange(0, 80).Draw(t, "queues") {
		entries = append(entries, v1alpha1.TopologyEntry{Kind: v1alpha1.KindQueue, Name: name(t), State: v1alpha1.StateInSync})
	}
	arguments := strings.Repeat("a", rapid.SampledFrom([]int{0, 100, 20000}).Draw(t, "arguments"))
	for range rapid.SampledFrom([]int{0, 1, 200, 300}).Draw(t, "bindings") {
		entries = append(entries, v1alpha1.TopologyEntry{
			Kind: v1alpha1.KindBinding, Source: "s", Destination: "d", Arguments: arguments, State: v1alpha1.StateInSync,
		})
	}
	for range rapid.SampledFrom([]int{0, 1, 64}).Draw(t, "foreign") {
		entries = append(entries, v1alpha1.TopologyEntry{
			Kind: v1alpha1.KindBinding, Source: anyText(t), Destination: "d", RoutingKey: anyText(t), Arguments: anyText(t), State: v1alpha1.StateForeign,
		})
	}
	return entries
}

// name draws a valid and long name. A control character takes six bytes in JSON.
func name(t *rapid.T) string {
	return strings.Repeat(rapid.SampledFrom([]string{"a", "\x01", "ä", "<"}).Draw(t, "letter"), rapid.IntRange(1, 127).Draw(t, "length"))
}

// anyText draws a text that a broker may return.
func anyText(t *rapid.T) string {
	letter := rapid.SampledFrom([]string{"a", "\x00", "\xff", "ä", `"`, "<", "\u2028", "🐇"}).Draw(t, "letter")
	return strings.Repeat(letter, rapid.SampledFrom([]int{0, 1, 255, 256, 1024, 9000}).Draw(t, "length"))
}

// Foreign bindings with long arguments remain distinct, and are equal in each reconciliation.
func TestLongArgumentsOfForeignBindingsAreHashed(t *testing.T) {
	t.Parallel()
	entry := func(letter string) v1alpha1.TopologyEntry {
		return v1alpha1.TopologyEntry{Kind: v1alpha1.KindBinding, Arguments: strings.Repeat(letter, 70000), State: v1alpha1.StateForeign}
	}
	kept, omitted := truncated([]v1alpha1.TopologyEntry{entry("a"), entry("b"), entry("a")})
	topologytest.Equal(t, "omitted", int32(0), omitted)
	if kept[0] == kept[1] || kept[0] != kept[2] {
		t.Errorf("%+v", kept)
	}
	if !strings.HasPrefix(kept[0].Arguments, "sha256:") || !strings.HasSuffix(kept[0].Arguments, " (70000 bytes)") {
		t.Errorf("%q", kept[0].Arguments)
	}
}

// The estimate is an upper bound for any topology, and for any field that is added later.
func TestEncodedAtMost(t *testing.T) {
	t.Parallel()
	drawn := rapid.Custom(anyEntries)
	for number := range examples {
		entries := drawn.Example(number)
		if most, size := encodedAtMost(entries), conditions.EncodedSize(entries); size > most {
			t.Errorf("%d bytes, above the bound %d", size, most)
		}
	}
	full := v1alpha1.TopologyEntry{}
	for i := range reflect.TypeFor[v1alpha1.TopologyEntry]().NumField() {
		reflect.ValueOf(&full).Elem().Field(i).SetString(strings.Repeat("\x01", 100))
	}
	entries := []v1alpha1.TopologyEntry{full, full}
	if most, size := encodedAtMost(entries), conditions.EncodedSize(entries); size > most || most > size+3 {
		t.Errorf("%d bytes, bound by %d", size, most)
	}
}
