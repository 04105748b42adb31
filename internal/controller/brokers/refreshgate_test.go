package brokers

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/rabbit"
)

// lookedAt is a connection whose last look began at a time.
type lookedAt struct{ time.Time }

func (lookedAt) RequestRefresh()         {}
func (l lookedAt) Health() rabbit.Health { return rabbit.Health{SyncedAt: l.Time} }

func TestFreshness(t *testing.T) {
	t.Parallel()
	resource := client.ObjectKey{Namespace: "shop", Name: "orders"}
	old, fresh := lookedAt{time.Now().Add(-time.Minute)}, lookedAt{time.Now().Add(time.Minute)}
	f := NewRefreshGate()
	for _, step := range []struct {
		name      string
		about     string
		at        lookedAt
		notBefore time.Time
		answered  bool
	}{
		{name: "a look before the question is no answer", about: "first", at: fresh},
		{name: "an old look is no answer", about: "first", at: old},
		{name: "another question needs another look", about: "second", at: fresh},
		{name: "a look after the question answers", about: "second", at: fresh, answered: true},
		{name: "the same question is asked anew", about: "second", at: fresh},
		{name: "a question from before the event is asked anew", about: "second", at: fresh, notBefore: time.Now().Add(time.Hour)},
	} {
		if wait := f.Pending(resource, step.at, step.about, step.notBefore); (wait == 0) != step.answered {
			t.Errorf("%s: wait %v", step.name, wait)
		}
	}
	f.Forget(resource)
	if f.Pending(resource, fresh, "second", time.Time{}) == 0 {
		t.Error("a question that was dropped is answered")
	}
}
