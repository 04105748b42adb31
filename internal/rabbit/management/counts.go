package management

import "context"

// MessageCount is the number of messages in a queue.
type MessageCount struct {
	// Messages counts all messages.
	Messages int64
	// Unacknowledged counts messages that were delivered to consumers.
	Unacknowledged int64
	// Held counts messages that are neither ready nor unacknowledged: dead letters that wait to be routed and, from RabbitMQ 4.3 on,
	// returned messages that the queue delays.
	Held int64
}

// Ready counts the messages that wait for a consumer.
func (c MessageCount) Ready() int64 { return max(c.Messages-c.Unacknowledged-c.Held, 0) }

// MessageCounts counts the messages of the wanted queues. It needs no statistics, because the broker asks each queue for its own numbers,
// which are seconds old. The result lacks a queue that does not answer, for example because its leader is down.
func (c *Client) MessageCounts(ctx context.Context, wanted func(queue string) bool) (map[string]MessageCount, error) {
	type queue struct {
		Name           string
		Messages       *int64
		Ready          int64 `json:"messages_ready"`
		Unacknowledged int64 `json:"messages_unacknowledged"`
	}
	counts := map[string]MessageCount{}
	path := "/queues/" + Escape(c.VHost) +
		"?disable_stats=true&enable_queue_totals=true&columns=name,messages,messages_ready,messages_unacknowledged"
	err := each(ctx, c, path, func(item queue) (int64, error) {
		if item.Messages == nil || !wanted(item.Name) {
			return 0, nil
		}
		counts[item.Name] = MessageCount{
			Messages: *item.Messages, Unacknowledged: item.Unacknowledged,
			Held: max(*item.Messages-item.Ready-item.Unacknowledged, 0),
		}
		return sizeOfName + int64(len(item.Name)), nil
	})
	if err != nil {
		return nil, err
	}
	return counts, nil
}
