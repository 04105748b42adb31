package ssa

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// WriteTracker remembers the resourceVersion that the last write of each object's status made. The cache hears of a write
// later. Until then a reconciliation finds the status from before in the cache; if it comes to that status again, it must not
// conclude that there is nothing to write. The zero value is ready to use.
type WriteTracker struct {
	mu       sync.Mutex
	versions map[client.ObjectKey]string
}

// Wrote takes note of an object as the API server returned it.
func (t *WriteTracker) Wrote(object client.Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.versions == nil {
		t.versions = map[client.ObjectKey]string{}
	}
	t.versions[client.ObjectKeyFromObject(object)] = object.GetResourceVersion()
}

// IsOlder says whether an object out of the cache is older than its last write.
func (t *WriteTracker) IsOlder(object client.Object) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := client.ObjectKeyFromObject(object)
	written, known := t.versions[key]
	if !known {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), written)
	if err == nil && order < 0 {
		return true
	}
	delete(t.versions, key)
	return false
}

// Forget drops what is known of an object that is gone.
func (t *WriteTracker) Forget(key client.ObjectKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.versions, key)
}
