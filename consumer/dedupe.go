package consumer

import (
	"context"
	"fmt"

	"github.com/warren-mq/warren/consumer/contract"
)

// Store records which messages are done, for example in a table of the application's database. All replicas of a consumer share
// it.
type Store interface {
	// Done reports whether a key is marked. If it returns an error, the message fails and is delivered again.
	Done(ctx context.Context, key string) (bool, error)
	// Mark records a key after the handler returned nil. If the process crashes between the two, or Mark returns an error, the
	// message is handled again.
	Mark(ctx context.Context, key string) error
}

// Dedupe is middleware that acks a message without handling it if the store has its key. A message with the key "" is always
// handled. Use a store for each queue, because an exchange can route messages with the same message-id to several queues.
func Dedupe(store Store, key func(*Delivery) string) Middleware {
	return func(next HandleFunc) HandleFunc {
		return func(ctx context.Context, d *Delivery) error {
			id := key(d)
			if id == "" {
				return next(ctx, d)
			}
			done, err := store.Done(ctx, id)
			if err != nil {
				return fmt.Errorf("check whether message %q is done: %w", id, err)
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

// ByMessageID returns the property message-id. Every copy has the message-id of the original.
func ByMessageID(d *Delivery) string { return d.Raw.MessageId }

// ByCopyID returns the header x-copy-id, which Conn.Publish and copies of failed messages set, or "". Two copies of one delivery
// have the same ID only if nothing but the publishing connection was lost between them. ByMessageID has no such restriction.
func ByCopyID(d *Delivery) string {
	id, _ := d.Raw.Headers[contract.HeaderCopyID].(string)
	return id
}
