package ownership

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// inConflict is a ConsumerQueue that lost a conflict.
func inConflict(cq *v1alpha1.ConsumerQueue) *v1alpha1.ConsumerQueue {
	cq.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: "False", Reason: v1alpha1.ReasonConflict}}
	return cq
}

// A ConsumerQueue that waits for an object of another one is affected by changes of the other.
func TestAffected(t *testing.T) {
	t.Parallel()
	index := NewIndex()
	index.Update(inConflict(controllertest.Named(t, "shop", "waiting", withGrave)))
	index.Update(inConflict(controllertest.Named(t, "shop", "elsewhere", `{}`)))
	index.Update(controllertest.Synced(t, "content", withGrave, ""))
	waiting := []client.ObjectKey{{Namespace: "shop", Name: "waiting"}}
	for name, test := range map[string]struct {
		changed *v1alpha1.ConsumerQueue
		want    []client.ObjectKey
	}{
		"of one that wants the object":                  {controllertest.Named(t, "shop", "new", withGrave), waiting},
		"of one that has the object":                    {controllertest.Synced(t, "old", withGrave, `{}`), waiting},
		"of one that has nothing to do with the object": {controllertest.Named(t, "shop", "new", `{queue: {name: new}}`), nil},
	} {
		topologytest.Equal(t, name, test.want, index.Affected(test.changed, false))
		topologytest.Equal(t, name+", and leaves", test.want, index.Affected(test.changed, true))
	}
	index.Update(controllertest.Named(t, "shop", "waiting", withGrave))
	topologytest.Equal(t, "when none waits any more", nil, index.Affected(controllertest.Named(t, "shop", "new", withGrave), false))
}

// A deleted ConsumerQueue does not affect other deleted ones. A ConsumerQueue that starts to need an object affects the deleted
// one that has it.
func TestAffectedByDeletions(t *testing.T) {
	t.Parallel()
	index := NewIndex()
	index.Update(controllertest.BeingDeleted(controllertest.Synced(t, "leaving", withGrave, "")))
	other := controllertest.Synced(t, "other", withGrave, "")
	topologytest.Equal(t, "another that leaves", nil, index.Affected(other, true))
	topologytest.Equal(t, "another that stays", []client.ObjectKey{{Namespace: "shop", Name: "leaving"}}, index.Affected(other, false))
}

// For an orphan, only the object itself is waited for.
func TestAffectedByOrphans(t *testing.T) {
	t.Parallel()
	orphan := controllertest.Synced(t, "orders", withGrave, "")
	at := slices.IndexFunc(orphan.Status.Topology, func(e v1alpha1.TopologyEntry) bool { return e.Name == "grave" })
	orphan.Status.Topology[at].State = v1alpha1.StateOrphaned
	index := NewIndex()
	index.Update(orphan)
	for name, test := range map[string]struct {
		spec string
		want int
	}{
		"of one that wants the queue":       {withGrave, 1},
		"of one that wants something else":  {`{}`, 0},
		"of one that shares something else": {`{deadLetter: {exchange: {name: orders.dlx}, queue: {name: tomb}}}`, 0},
	} {
		topologytest.Equal(t, name, test.want, len(index.Affected(controllertest.Named(t, "shop", "other", test.spec), false)))
	}
}

// Removed records leave nothing behind.
func TestRemove(t *testing.T) {
	t.Parallel()
	cq := inConflict(controllertest.Synced(t, "orders", withGrave, ""))
	index := NewIndex()
	index.Update(cq)
	index.Update(controllertest.BeingDeleted(controllertest.Synced(t, "orders", withGrave, withBigGrave)))
	index.Update(inConflict(controllertest.Synced(t, "orders", withGrave, withBigGrave)))
	index.Remove(client.ObjectKeyFromObject(cq))
	index.Remove(client.ObjectKeyFromObject(cq))
	left := len(index.records) + len(index.wants) + len(index.active) + len(index.leaving) + len(index.claims) + len(index.waits)
	topologytest.Equal(t, "entries", 0, left)
}

// A new spec changes the claims; a new status changes only the owned objects.
func TestUpdate(t *testing.T) {
	t.Parallel()
	cq := controllertest.Named(t, "shop", "orders", withGrave)
	index := indexOf(cq)
	peersOf := func(name string) int {
		view := index.View(controllertest.Named(t, "shop", "other", `{}`), here, topologytest.V43, leadsHere)
		return len(slices.Collect(view.holders(vhost.QueueID(name))))
	}
	topologytest.Equal(t, "those that want the grave", 1, peersOf("grave"))
	edited := controllertest.Synced(t, "orders", withGrave, `{deadLetter: {queue: {name: tomb}}}`)
	edited.UID, edited.Generation = cq.UID, cq.Generation+1
	index.Update(edited)
	topologytest.Equal(t, "those that have or want the grave", 1, peersOf("grave"))
	topologytest.Equal(t, "those that want the tomb", 1, peersOf("tomb"))
	settled := edited.DeepCopy()
	settled.Status.Topology = nil
	index.Update(settled)
	topologytest.Equal(t, "those that have or want the grave, when it is gone", 0, peersOf("grave"))
}

// The cache can be slightly ahead of the index.
func TestAwait(t *testing.T) {
	t.Parallel()
	version := func(resourceVersion string) *v1alpha1.ConsumerQueue {
		cq := controllertest.Named(t, "shop", "orders", `{}`)
		cq.UID, cq.ResourceVersion = "1", resourceVersion
		return cq
	}
	for name, test := range map[string]struct {
		heard []*v1alpha1.ConsumerQueue
		later *v1alpha1.ConsumerQueue
		want  bool
	}{
		"of this version":                       {heard: []*v1alpha1.ConsumerQueue{version("7")}, want: true},
		"of a newer one":                        {heard: []*v1alpha1.ConsumerQueue{version("10")}, want: true},
		"of an older one":                       {heard: []*v1alpha1.ConsumerQueue{version("6")}},
		"of none":                               {},
		"of none, and of this version later on": {later: version("7"), want: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			index := NewIndex()
			for _, cq := range test.heard {
				index.Update(cq)
			}
			if test.later != nil {
				go func() {
					time.Sleep(time.Second) // of a clock that nobody waits for
					index.Update(test.later)
				}()
			}
			topologytest.Equal(t, "heard "+name, test.want, index.Await(t.Context(), version("7"), 2*time.Second))
		})
	}
	namesake := version("9")
	namesake.UID = "2"
	topologytest.Equal(t, "heard of another one of the name", false, indexWith(namesake).Await(t.Context(), version("7"), time.Millisecond))
}

func indexWith(cq *v1alpha1.ConsumerQueue) *Index {
	index := NewIndex()
	index.Update(cq)
	return index
}
