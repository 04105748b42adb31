package ownership

import (
	"cmp"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"weak"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// withKey is a ConsumerQueue with a shared dead-letter exchange and queue, and its own routing key.
func withKey(key string) string {
	return fmt.Sprintf(`{deadLetter: {exchange: {name: dead, type: direct}, routingKey: %s, queue: {name: grave}}}`, key)
}

func sharing(t *testing.T, name, key string) *v1alpha1.ConsumerQueue {
	t.Helper()
	cq := controllertest.Synced(t, name, withKey(key), "")
	cq.UID = types.UID("uid of " + name)
	return cq
}

// bound are bindings of the shared queue.
func bound(keys ...string) []vhost.Binding {
	bindings := make([]vhost.Binding, len(keys))
	for i, key := range keys {
		bindings[i] = vhost.Binding{Source: "dead", Destination: "grave", RoutingKey: key}
	}
	return bindings
}

// unwantedKeys returns the keys of unwanted bindings. Whether the ConsumerQueue's own binding is among them is unspecified.
func unwantedKeys(view View, bindings []vhost.Binding, own string) []string {
	var keys []string
	for _, id := range view.Unwanted("grave", bindings) {
		if id.RoutingKey != own {
			keys = append(keys, id.RoutingKey)
		}
	}
	return keys
}

// The unwanted bindings of a shared queue are cached after the first question, and recomputed after each change.
func TestUnwanted(t *testing.T) {
	t.Parallel()
	edited, moved := sharing(t, "other", "z"), sharing(t, "other", "b")
	edited.Generation++
	moved.Status.Location.VHost = "elsewhere"
	for name, test := range map[string]struct {
		update *v1alpha1.ConsumerQueue
		remove string
		now    []vhost.Binding
		want   []string
	}{
		"nothing changes":                        {want: []string{"x", "y"}},
		"a status is written":                    {update: sharing(t, "other", "b"), want: []string{"x", "y"}},
		"a binding is made":                      {now: bound("a", "b", "x", "y", "z"), want: []string{"x", "y", "z"}},
		"a binding goes":                         {now: bound("a", "b", "y"), want: []string{"y"}},
		"a ConsumerQueue comes":                  {update: sharing(t, "new", "x"), want: []string{"y"}},
		"a ConsumerQueue comes that has nothing": {update: controllertest.Named(t, "shop", "new", withKey("x")), want: []string{"y"}},
		"a ConsumerQueue wants another key":      {update: edited, want: []string{"b", "x", "y"}},
		"a ConsumerQueue is at another location": {update: moved, want: []string{"b", "x", "y"}},
		"a ConsumerQueue has let go":             {update: withoutFinalizer(controllertest.BeingDeleted(sharing(t, "other", "b"))), want: []string{"b", "x", "y"}},
		"a ConsumerQueue goes":                   {remove: "other", want: []string{"b", "x", "y"}},
		"one goes that does not share the queue": {remove: "third", want: []string{"x", "y"}},
		"the ConsumerQueue itself goes":          {remove: "own", want: []string{"x", "y"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own := sharing(t, "own", "a")
			index := indexOf(own, sharing(t, "other", "b"), controllertest.Synced(t, "third", `{}`, ""))
			view := index.View(own, here, topologytest.V43, func(cq *v1alpha1.ConsumerQueue) Location {
				return Location{Cluster: here.Cluster, VHost: cmp.Or(cq.Status.Location.VHost, here.VHost)}
			})
			bindings := bound("a", "b", "x", "y")
			topologytest.Equal(t, "before", []string{"x", "y"}, unwantedKeys(view, bindings, "a"))
			if test.update != nil {
				index.Update(test.update)
			}
			if test.remove != "" {
				index.Remove(client.ObjectKey{Namespace: "shop", Name: test.remove})
			}
			if test.now != nil {
				bindings = test.now
			}
			topologytest.Equal(t, "after", test.want, unwantedKeys(view, bindings, "a"))
			for _, name := range []string{"own", "other", "new"} {
				index.Remove(client.ObjectKey{Namespace: "shop", Name: name})
			}
			topologytest.Equal(t, "what is left of the answers", 0, len(index.unwanted.answers))
		})
	}
}

// While a vhost grows, observed bindings are appended, and ConsumerQueues check more of them.
func TestUnwantedOfAGrowingQueue(t *testing.T) {
	t.Parallel()
	own := sharing(t, "own", "a")
	index := indexOf(own, sharing(t, "other", "b"))
	view, bindings := index.View(own, here, topologytest.V43, leadsHere), bound("a", "b", "x", "y", "z")
	topologytest.Equal(t, "of three", []string{"x"}, unwantedKeys(view, bindings[:3], "a"))
	topologytest.Equal(t, "of all", []string{"x", "y", "z"}, unwantedKeys(view, bindings, "a"))
	topologytest.Equal(t, "of those observed before the last", []string{"x", "y", "z"}, unwantedKeys(view, bindings[:4], "a"))
	index.Update(sharing(t, "new", "x"))
	topologytest.Equal(t, "when one of them is wanted", []string{"y", "z"}, unwantedKeys(view, bindings, "a"))
	topologytest.Equal(t, "of none", nil, unwantedKeys(view, nil, "a"))
}

// The cost of a cached answer does not depend on the number of peers. The test counts allocations, which do not depend on the
// machine.
func TestUnwantedOfACrowd(t *testing.T) {
	cost := func(count int) float64 {
		var crowd []*v1alpha1.ConsumerQueue
		var keys []string
		for i := range count {
			key := fmt.Sprintf("k%d", i)
			crowd, keys = append(crowd, sharing(t, "orders-"+key, key)), append(keys, key)
		}
		view, bindings := indexOf(crowd...).View(crowd[0], here, topologytest.V43, leadsHere), bound(append(keys, "x")...)
		return testing.AllocsPerRun(3, func() { topologytest.Equal(t, "unwanted", []string{"x"}, unwantedKeys(view, bindings, "k0")) })
	}
	topologytest.Equal(t, "allocations with 200", cost(20), cost(200))
}

// An answer does not keep an old snapshot in memory: the memory limit of snapshots no longer counts it.
func TestUnwantedKeepsNoSnapshot(t *testing.T) {
	t.Parallel()
	own := sharing(t, "own", "a")
	index := indexOf(own, sharing(t, "other", "b"))
	bindings := bound("a", "b", "x")
	snapshot := weak.Make(&bindings[0])
	topologytest.Equal(t, "unwanted", []string{"x"}, unwantedKeys(index.View(own, here, topologytest.V43, leadsHere), bindings, "a"))
	topologytest.Equal(t, "answers", 1, len(index.unwanted.answers))
	runtime.GC()
	topologytest.Equal(t, "the snapshot is in memory", false, snapshot.Value() != nil)
	runtime.KeepAlive(index)
}

// Foreign bindings can have arguments of many MiB. Answers with them are not cached.
func TestUnwantedOfLongArguments(t *testing.T) {
	t.Parallel()
	own := sharing(t, "own", "a")
	index := indexOf(own, sharing(t, "other", "b"))
	view, bindings := index.View(own, here, topologytest.V43, leadsHere), bound("a", "b", "x", "y")
	for i := range bindings[2:] {
		bindings[2+i].Arguments = vhost.Arguments{"note": strings.Repeat("x", maxAnswer/2)}
	}
	topologytest.Equal(t, "unwanted", []string{"x", "y"}, unwantedKeys(view, bindings, "a"))
	topologytest.Equal(t, "unwanted again", []string{"x", "y"}, unwantedKeys(view, bindings, "a"))
	topologytest.Equal(t, "answers", 0, len(index.unwanted.answers))
}

func TestUnwantedOfManyQueuesIsLimited(t *testing.T) {
	t.Parallel()
	cache := unwantedBindings{}
	for i := range 100 {
		key := unwantedKey{id: vhost.QueueID(fmt.Sprint(i)), namespace: "shop"}
		cache.put(key, unwantedAnswer{unwanted: []vhost.ID{{Arguments: strings.Repeat("x", maxAnswer/2)}}})
		topologytest.Equal(t, "the newest answer is cached", 1, len(cache.get(key, Location{}, vhost.Version{}).unwanted))
		size := 0
		for _, answers := range cache.answers {
			size += answers[0].bytes()
		}
		if size > maxAnswers {
			t.Fatalf("the answers take %d bytes, at most %d are allowed", size, maxAnswers)
		}
	}
}

// The broker of a tenant can show a new location and version at each refresh. Old answers are not kept.
func TestUnwantedOfAChangingBroker(t *testing.T) {
	t.Parallel()
	own := sharing(t, "own", "a")
	index := indexOf(own, sharing(t, "other", "b"))
	bindings := bound("a", "b", "x")
	for patch := range 100 {
		location, version := here, topologytest.V43
		location.VHost, version.Patch = fmt.Sprint("vhost-", patch), patch
		index.View(own, location, version, leadsHere).Unwanted("grave", bindings)
		index.View(own, here, version, leadsHere).Unwanted("grave", bindings)
	}
	for key, answers := range index.unwanted.answers {
		topologytest.Equal(t, fmt.Sprint("answers for ", key), keptAnswers, len(answers))
	}
	for _, record := range index.records {
		topologytest.Equal(t, "candidates", keptVersions, len(record.candidates))
	}
}
