package ownership

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// Whoever waits for an object that another one has, or wants, is affected by what becomes of that.
func TestAffected(t *testing.T) {
	t.Parallel()
	waiting, content := controllertest.Named(t, "shop", "waiting", withGrave), controllertest.Synced(t, "content", withGrave, "")
	elsewhere := controllertest.Named(t, "shop", "elsewhere", `{}`)
	index := NewIndex()
	index.Update(waiting, true)
	index.Update(elsewhere, true)
	index.Update(content, false)
	key := []client.ObjectKey{client.ObjectKeyFromObject(waiting)}
	topologytest.Equal(t, "of one that wants the object", key, index.Affected(controllertest.Named(t, "shop", "new", withGrave)))
	topologytest.Equal(t, "of one that has the object", key, index.Affected(controllertest.Synced(t, "old", withGrave, `{}`)))
	topologytest.Equal(t, "of one that has nothing to do with the object", nil, index.Affected(controllertest.Named(t, "shop", "new", `{queue: {name: new}}`)))
	index.Update(waiting, false)
	topologytest.Equal(t, "when none waits any more", nil, index.Affected(content))
}

// What is removed leaves nothing behind.
func TestRemove(t *testing.T) {
	t.Parallel()
	cq := controllertest.Synced(t, "orders", withGrave, "")
	index := NewIndex()
	index.Update(cq, true)
	index.Update(controllertest.Synced(t, "orders", withGrave, withBigGrave), true)
	index.Remove(client.ObjectKeyFromObject(cq))
	index.Remove(client.ObjectKeyFromObject(cq))
	left := len(index.records) + len(index.wants) + len(index.active) + len(index.leaving) + len(index.claims) + len(index.waits)
	topologytest.Equal(t, "entries", 0, left)
}

// A new spec has new claims; of a new status only what it owns is new.
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
	index.Update(edited, false)
	topologytest.Equal(t, "those that have or want the grave", 1, peersOf("grave"))
	topologytest.Equal(t, "those that want the tomb", 1, peersOf("tomb"))
	settled := edited.DeepCopy()
	settled.Status.Topology = nil
	index.Update(settled, false)
	topologytest.Equal(t, "those that have or want the grave, when it is gone", 0, peersOf("grave"))
}

// The cache can be ahead of the index by a moment.
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
				index.Update(cq, false)
			}
			if test.later != nil {
				go func() {
					time.Sleep(time.Second) // of a clock that nobody waits for
					index.Update(test.later, false)
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
	index.Update(cq, false)
	return index
}
