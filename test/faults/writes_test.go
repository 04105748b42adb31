package faults

import (
	"context"
	"maps"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// writes counts how often each resource of a namespace is changed. A write without a change is not an event and has
// no cost.
type writes struct {
	mu     sync.Mutex
	counts map[string]int
	began  time.Time // when the first was seen
}

// countWrites starts counting. Existing resources do not count.
func (w *world) countWrites() *writes {
	GinkgoHelper()
	counter := &writes{counts: map[string]int{}}
	watching, end := context.WithCancel(context.Background())
	DeferCleanup(end)
	for kind, list := range map[string]client.ObjectList{
		"ConsumerQueue/": &v1alpha1.ConsumerQueueList{}, "BrokerConnection/": &v1alpha1.BrokerConnectionList{},
		"Redrive/": &v1alpha1.RedriveList{}, "Purge/": &v1alpha1.PurgeList{},
	} {
		watcher, err := kube.Watch(watching, list, client.InNamespace(w.Namespace))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(watcher.Stop)
		go func() {
			for event := range watcher.ResultChan() {
				if event.Type == watch.Modified {
					counter.add(kind + event.Object.(client.Object).GetName())
				}
			}
		}()
	}
	return counter
}

func (c *writes) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.counts) == 0 {
		c.began = time.Now()
	}
	c.counts[name]++
}

// first returns when the first write was seen.
func (c *writes) first() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.began
}

// of returns the number of writes per written resource.
func (c *writes) of() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.counts)
}
