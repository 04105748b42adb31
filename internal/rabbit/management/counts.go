package management

import "context"

// MessageCounts counts the messages of the wanted queues. The listing needs no statistics: the broker asks each queue for its own numbers,
// which are seconds old. A queue that cannot be asked, such as one whose leader is down, is left out: its number is not known, and may be
// anything.
func (m *Client) MessageCounts(ctx context.Context, wanted func(queue string) bool) (map[string]int64, error) {
	type queue struct {
		Name     string
		Messages *int64
	}
	counts := map[string]int64{}
	path := "/queues/" + Escape(m.VHost) + "?disable_stats=true&enable_queue_totals=true&columns=name,messages"
	_, err := m.Get(ctx, path, "", StreamedFunc(func(a *Answer) error {
		return EachItem(a, func(item queue) (int64, error) {
			if item.Messages == nil || !wanted(item.Name) {
				return 0, nil
			}
			counts[item.Name] = *item.Messages
			return sizeOfName + int64(len(item.Name)), nil
		})
	}))
	if err != nil {
		return nil, err
	}
	return counts, nil
}
