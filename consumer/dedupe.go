package consumer

import (
	"container/list"
	"context"
	"fmt"
	"sync"

	"github.com/warren-mq/warren/consumer/contract"
)

// Store remembers which messages are done. A key of a message whose handler has returned nil is marked; between the two, a
// crash lets the message be handled again.
type Store interface {
	Done(ctx context.Context, key string) (bool, error)
	Mark(ctx context.Context, key string) error
}

// Dedupe is middleware that acks a message without handling it whose key is done. Messages without a key are always handled. If the store
// fails, so does the message.
func Dedupe(store Store, key func(*Delivery) string) Middleware {
	return func(next func(context.Context, *Delivery) error) func(context.Context, *Delivery) error {
		return func(ctx context.Context, d *Delivery) error {
			id := key(d)
			if id == "" {
				return next(ctx, d)
			}
			done, err := store.Done(ctx, id)
			if err != nil {
				return fmt.Errorf("find out whether message %q is done: %w", id, err)
			}
			if done {
				return nil
			}
			if err := next(ctx, d); err != nil {
				return err
			}
			if err := store.Mark(ctx, id); err != nil {
				return fmt.Errorf("mark message %q as done: %w", id, err)
			}
			return nil
		}
	}
}

// ByMessageID is the property message-id, which is that of the original on every copy.
func ByMessageID(d *Delivery) string { return d.Raw.MessageId }

// ByCopyID is the same for two copies of one delivery, of which one is a duplicate; empty on the first delivery.
func ByCopyID(d *Delivery) string {
	id, _ := d.Raw.Headers[contract.HeaderCopyID].(string)
	return id
}

// LRU is a Store in memory, which remembers the latest keys.
type LRU struct {
	mu    sync.Mutex
	size  int
	order list.List // of keys, the latest first
	known map[string]*list.Element
}

// NewLRU makes a Store in memory, which remembers that many keys.
func NewLRU(size int) *LRU { return &LRU{size: max(1, size), known: map[string]*list.Element{}} }

// Done says whether a key is known.
func (l *LRU) Done(_ context.Context, key string) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, found := l.known[key]
	if found {
		l.order.MoveToFront(at)
	}
	return found, nil
}

// Mark remembers a key.
func (l *LRU) Mark(_ context.Context, key string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, found := l.known[key]; found {
		l.order.MoveToFront(at)
		return nil
	}
	l.known[key] = l.order.PushFront(key)
	if l.order.Len() > l.size {
		oldest := l.order.Back()
		l.order.Remove(oldest)
		delete(l.known, oldest.Value.(string))
	}
	return nil
}
