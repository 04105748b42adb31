package consumer

import (
	"context"
	"fmt"

	"github.com/warren-mq/warren/consumer/contract"
)

// Store remembers which messages are done, for example in a table of the application's database. All replicas of a consumer
// share it.
type Store interface {
	// Done reports whether a key is marked.
	Done(ctx context.Context, key string) (bool, error)
	// Mark records a key after the handler has returned nil. If the process crashes in between, the message is handled again.
	Mark(ctx context.Context, key string) error
}

// Dedupe is middleware that acknowledges a message without handling it if the store has marked its key. A message without a key
// is always handled. If the store returns an error, the message fails.
func Dedupe(store Store, key func(*Delivery) string) Middleware {
	return func(next HandleFunc) HandleFunc {
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

// ByCopyID is the header x-copy-id, which Conn.Publish and copies of failed messages set. Two copies of one delivery have the same ID if
// only the connection that publishes was lost in between. ByMessageID has no such limit.
func ByCopyID(d *Delivery) string {
	id, _ := d.Raw.Headers[contract.HeaderCopyID].(string)
	return id
}
