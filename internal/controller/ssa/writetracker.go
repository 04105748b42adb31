package ssa

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// WriteTracker remembers the resourceVersion that the last write of each object's status made. The cache hears of a write
// later. Until then a reconciliation finds the status from before in the cache; if it comes to that status again, it must not
// conclude that there is nothing to write. The zero value is ready to use.
type WriteTracker struct {
	mu     sync.Mutex
	writes map[client.ObjectKey]write
}

// write is the last write of an object's status.
type write struct {
	version string
	at      time.Time
}

// maxCacheLag is how much later than a write the cache hears of it at most. Without a limit, an API server that was restored from a
// backup, with older versions, would never catch up.
const maxCacheLag = time.Minute

// Wrote takes note of an object as the API server returned it.
func (t *WriteTracker) Wrote(object client.Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.writes == nil {
		t.writes = map[client.ObjectKey]write{}
	}
	t.writes[client.ObjectKeyFromObject(object)] = write{object.GetResourceVersion(), time.Now()}
}

// IsOlder says whether an object out of the cache is older than its last write.
func (t *WriteTracker) IsOlder(object client.Object) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := client.ObjectKeyFromObject(object)
	last, known := t.writes[key]
	if !known {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), last.version)
	switch {
	case err != nil, order > 0, time.Since(last.at) > maxCacheLag:
		delete(t.writes, key)
		return false
	}
	return order < 0
}

// Forget drops what is known of an object that is gone.
func (t *WriteTracker) Forget(key client.ObjectKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.writes, key)
}
