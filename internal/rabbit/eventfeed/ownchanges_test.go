package eventfeed

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/warren-mq/warren/internal/vhost"
)

func TestOwnChanges(t *testing.T) {
	t.Parallel()
	type change struct {
		kind Kind
		from Origin
	}
	for name, test := range map[string]struct {
		own   []Kind
		heard []change
	}{
		"nothing was changed": {heard: []change{{Created, OriginOther}, {Deleted, OriginOther}}},
		"declared":            {own: []Kind{Created}, heard: []change{{Created, OriginOwn}, {Deleted, OriginOther}}},
		"declared, and deleted by another client before the event arrives": {
			own: []Kind{Created}, heard: []change{{Deleted, OriginUnclear}},
		},
		"deleted and declared again": {
			own:   []Kind{Deleted, Created},
			heard: []change{{Deleted, OriginOwn}, {Created, OriginOwn}, {Deleted, OriginOther}},
		},
		"two bindings that differ in their arguments": {
			own:   []Kind{Created, Created},
			heard: []change{{Created, OriginOwn}, {Created, OriginOwn}, {Created, OriginOther}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var changes OwnChanges
			for _, kind := range test.own {
				changes.Begin(vhost.QueueID("orders"), kind)
			}
			if from := changes.Receive(vhost.QueueID("invoices"), Deleted); from != OriginOther {
				t.Errorf("of another queue: %v", from)
			}
			for i, event := range test.heard {
				if from := changes.Receive(vhost.QueueID("orders"), event.kind); from != event.from {
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
		var changes OwnChanges
		changes.Begin(queue, Created)
		changes.Refused(queue, Created)
		if from := changes.Receive(queue, Deleted); from != OriginOther {
			t.Errorf("after a refusal: %v", from)
		}
		changes.Begin(queue, Created) // of a queue that exists
		for range 3 {
			time.Sleep(ownChangeAge / 2)
			changes.Begin(queue, Created)
			changes.Receive(queue, Created)
		}
		if from := changes.Receive(queue, Deleted); from != OriginOther {
			t.Errorf("after one that was never announced and others that were: %v", from)
		}
	})
}
