package consumerqueue

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/controller/retrybudget"
	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/recreate"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// eventsWith returns the Events so far that have a reason.
func (w *recreationWorld) eventsWith(reason string) []occurrence {
	return slices.DeleteFunc(slices.Clone(w.recorder.occurred), func(event occurrence) bool { return event.reason != reason })
}

func TestMetricsOfRecreations(t *testing.T) {
	w := newRecreationWorld(t, automatic, func(w *recreationWorld) { // not parallel: the counters are global
		w.engine.seen.Ready, w.engine.past = 12, 2
	})
	counters := func() []float64 {
		return []float64{
			testutil.ToFloat64(metrics.Recreations.With("Completed")), testutil.ToFloat64(metrics.RecreationMessages.With(toBacklog)),
			testutil.ToFloat64(metrics.RecreationPastBindings.With()),
		}
	}
	before := counters()
	refuse := w.refuseStatuses()
	release := make(chan struct{})
	w.engine.during[v1alpha1.RecreationEmptying] = func(context.Context) error { <-release; return nil }
	w.wantTTL(strings.Replace(automatic, "Automatic", "Automatic, publishersPastBindings: Accept", 1))
	w.reach(v1alpha1.RecreationEmptying)
	for w.get().Status.Recreation.Moved == 0 { // until the work has reported
		w.once()
	}
	w.emits(`
# HELP warren_recreation_phase `+controllertest.HelpOf(t, "warren_recreation_phase")+`
# TYPE warren_recreation_phase gauge
warren_recreation_phase{name="orders",namespace="shop",phase="Emptying"} 1
# HELP warren_recreation_remaining `+controllertest.HelpOf(t, "warren_recreation_remaining")+`
# TYPE warren_recreation_remaining gauge
warren_recreation_remaining{name="orders",namespace="shop"} 7
`, "warren_recreation_phase", "warren_recreation_remaining")
	close(release)
	w.awaitEnd()
	refuse(2) // each result counts once
	w.settle()
	w.emits("", "warren_recreation_phase", "warren_recreation_remaining")
	for i, counted := range counters() {
		topologytest.Equal(t, fmt.Sprint("counter ", i), []float64{1, 14, 2}[i], counted-before[i])
	}
}

func TestEventsOfRecreationsThatFail(t *testing.T) {
	t.Parallel()
	const why = "no policymaker"
	for name, test := range map[string]struct {
		during v1alpha1.RecreationPhase
		want   occurrence
	}{
		"before it begins": {v1alpha1.RecreationWaiting, occurrence{"Warning", "RecreationBlocked", "Recreate", why}},
		"after it has begun": {v1alpha1.RecreationDiverting, occurrence{
			"Warning", "RecreationBackedOut", "Recreate", `the recreation of queue "orders" was backed out: ` + why,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRecreationWorld(t, whenEmpty)
			w.engine.during[test.during] = func(context.Context) error {
				return &recreate.Error{Reason: recreate.MissingPermission, Message: why}
			}
			w.wantTTL(whenEmpty)
			w.settle()
			w.once()
			topologytest.Equal(t, "Events", []occurrence{test.want}, w.eventsWith(test.want.reason), comparingOccurrences)
		})
	}
}

func TestTheEventOfASwap(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		gone bool
		want string
	}{
		"the queue was deleted":         {want: `queue "orders" was deleted while it was empty, and was declared with`},
		"another client had deleted it": {gone: true, want: `queue "orders" no longer existed, and was declared with`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRecreationWorld(t, whenEmpty, func(w *recreationWorld) { w.engine.gone = test.gone })
			w.wantTTL(whenEmpty)
			w.settle()
			events := w.eventsWith(eventQueueSwapped)
			if len(events) != 1 || !strings.HasPrefix(events[0].note, test.want) {
				t.Errorf("the Events are %q, want %q", events, test.want)
			}
		})
	}
}

// The Event is the last place that names the queues in which messages may be.
func TestADeletionThatGivesUpARecreationNamesItsQueues(t *testing.T) {
	t.Parallel()
	w := newRecreationWorld(t, whenEmpty)
	w.engine.during[v1alpha1.RecreationEmptying] = func(context.Context) error { return w.api.Delete(w.t.Context(), w.get()) }
	w.engine.during[v1alpha1.RecreationGivingBack] = func(context.Context) error { return brokererr.ErrTimeout }
	w.wantTTL(whenEmpty)
	w.reach(v1alpha1.RecreationGivingBack)
	under := w.get().Status.Recreation
	w.reconciler.unfinished = retrybudget.Failures{}
	failFor(&w.reconciler.unfinished, w.get(), 10*time.Minute)
	var note string
	for _, event := range w.reconcileUntilGone() {
		if event.reason == eventRetained {
			note += event.note
		}
	}
	want := fmt.Sprintf(`the recreation of queue "orders" has not ended: queues %[1]q and %[2]q may hold its messages, and its bindings `+
		`may lead to queue %[2]q. Move the messages and bindings back to queue "orders"`, under.Backlog, under.Hold)
	if under.Hold == "" || !strings.Contains(note, want) {
		t.Errorf("the Event does not say %q:\n%s", want, note)
	}
}
