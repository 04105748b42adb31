package deadletterapi

import (
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/internal/deadletter"
)

type page struct {
	query
	redact *regexp.Regexp
	room   int // for items, in bytes
	items  []json.RawMessage
	size   int
	// next is where the next page begins; zero if the browse ended before the page was full.
	next int
	err  error
	// found has the IDs of the items, if the query is distinct.
	found map[string]bool
}

// add adds a message to the page, and reports whether the browse must continue. It must not if the page is full, if the message cannot be
// encoded, or if all requested IDs were found.
func (p *page) add(position int, deadLetter deadletter.Message) bool {
	described := describe(deadLetter, position, p.bodyLimit, p.redact)
	if p.distinct && p.found[described.ID] {
		return true
	}
	item, err := json.Marshal(described)
	if err != nil {
		p.err = fmt.Errorf("write the message at position %d: %w", position, err)
		return false
	}
	if len(p.items) > 0 && p.size+len(item) > p.room {
		p.next = position
		return false
	}
	p.items = append(p.items, item)
	p.size += len(item)
	if len(p.items) == p.limit {
		p.next = position + 1
		return false
	}
	if p.distinct {
		if p.found == nil {
			p.found = map[string]bool{}
		}
		p.found[described.ID] = true
		return len(p.selector.IDs) == 0 || len(p.found) < len(p.selector.IDs)
	}
	return true
}

func (p *page) list(queue string, seen browsed) v1alpha1.DeadLetterList {
	list := v1alpha1.DeadLetterList{
		TypeMeta: v1alpha1.TypeOf(v1alpha1.KindDeadLetterList), Queue: queue, Ready: int64(seen.ready), Seen: seen.Seen, Items: p.items,
	}
	if list.Items == nil {
		list.Items = []json.RawMessage{}
	}
	if p.next > 0 && p.next < seen.ready {
		list.NextPosition = new(int64(p.next))
	}
	return list
}
