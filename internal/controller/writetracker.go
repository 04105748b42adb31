package controller

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// writeTracker remembers the resourceVersion that the last write of each object's status made. The cache hears of a write
// later. Until then a reconciliation finds the status from before in the cache; if it comes to that status again, it must not
// conclude that there is nothing to write. The zero value is ready to use.
type writeTracker struct {
	mu       sync.Mutex
	versions map[client.ObjectKey]string
}

// wrote takes note of an object as the API server returned it.
func (t *writeTracker) wrote(object client.Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.versions == nil {
		t.versions = map[client.ObjectKey]string{}
	}
	t.versions[client.ObjectKeyFromObject(object)] = object.GetResourceVersion()
}

// isOlder says whether an object out of the cache is older than its last write.
func (t *writeTracker) isOlder(object client.Object) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := client.ObjectKeyFromObject(object)
	written, known := t.versions[key]
	if !known {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), written)
	if err != nil || order > 0 {
		delete(t.versions, key)
		return false
	}
	return order < 0
}

func (t *writeTracker) forget(key client.ObjectKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.versions, key)
}
