package rabbit

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/events"
	"github.com/warren-mq/warren/internal/vhost"
)

func TestOwnChanges(t *testing.T) {
	t.Parallel()
	type change struct {
		kind events.Kind
		from origin
	}
	for name, test := range map[string]struct {
		own   []events.Kind
		heard []change
	}{
		"nothing was changed": {heard: []change{{events.Created, originOther}, {events.Deleted, originOther}}},
		"declared":            {own: []events.Kind{events.Created}, heard: []change{{events.Created, originOwn}, {events.Deleted, originOther}}},
		"declared, and deleted by somebody before that is heard": {
			own: []events.Kind{events.Created}, heard: []change{{events.Deleted, originUnclear}},
		},
		"deleted and declared again": {
			own:   []events.Kind{events.Deleted, events.Created},
			heard: []change{{events.Deleted, originOwn}, {events.Created, originOwn}, {events.Deleted, originOther}},
		},
		"two bindings that differ in their arguments": {
			own:   []events.Kind{events.Created, events.Created},
			heard: []change{{events.Created, originOwn}, {events.Created, originOwn}, {events.Created, originOther}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var changes ownChanges
			for _, kind := range test.own {
				changes.begin(vhost.QueueID("orders"), kind)
			}
			if from := changes.hear(vhost.QueueID("invoices"), events.Deleted); from != originOther {
				t.Errorf("of another queue: %v", from)
			}
			for i, event := range test.heard {
				if from := changes.hear(vhost.QueueID("orders"), event.kind); from != event.from {
					t.Errorf("event %d: %v, want %v", i, from, event.from)
				}
			}
		})
	}
}

func TestOwnChangesThatAreNotAnnounced(t *testing.T) {
	t.Parallel()
	queue := vhost.QueueID("orders")
	synctest.Test(t, func(t *testing.T) {
		var changes ownChanges
		changes.begin(queue, events.Created)
		changes.refused(queue, events.Created)
		if from := changes.hear(queue, events.Deleted); from != originOther {
			t.Errorf("after a refusal: %v", from)
		}
		changes.begin(queue, events.Created) // of a queue that exists
		for range 3 {
			time.Sleep(ownChangeAge / 2)
			changes.begin(queue, events.Created)
			changes.hear(queue, events.Created)
		}
		if from := changes.hear(queue, events.Deleted); from != originOther {
			t.Errorf("after one that was never announced and others that were: %v", from)
		}
	})
}
