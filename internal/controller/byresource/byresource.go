// Package byresource stores what the process knows about each resource and does not write to its status.
package byresource

import (
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Map has a value for each resource of a kind. It is safe for concurrent use. The zero Map is empty.
type Map[T any] struct {
	mu sync.Mutex
	of map[client.ObjectKey]T
}

// Change replaces the value of a resource by what change returns for it, and returns the new value. Change gets the zero value if there is
// none yet.
func (m *Map[T]) Change(resource client.ObjectKey, change func(T) T) T {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[client.ObjectKey]T{}
	}
	m.of[resource] = change(m.of[resource])
	return m.of[resource]
}

// Get returns the value of a resource; the zero value if there is none.
func (m *Map[T]) Get(resource client.ObjectKey) T {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of[resource]
}

// Forget removes the value of a resource.
func (m *Map[T]) Forget(resource client.ObjectKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, resource)
}
