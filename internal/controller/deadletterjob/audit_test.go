package deadletterjob

import (
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/mover"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// logTo appends the log lines of the Reconciler to a slice.
func (w *redriveWorld) logTo(lines *[]string) {
	w.Reconciler.Log = funcr.New(func(_, args string) { *lines = append(*lines, args) }, funcr.Options{})
}

// edit changes the spec as a user does.
func (w *redriveWorld) edit(change func(*v1alpha1.RedriveSpec)) {
	w.T.Helper()
	redrive := w.get()
	change(&redrive.Spec)
	redrive.Generation++
	if err := w.API.Update(w.T.Context(), redrive); err != nil {
		w.T.Fatal(err)
	}
}

func TestARedriveLogsWhatItDoes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ spec, requestedBy, selection, parameters string }{
		"without requestedBy": {all, "unknown", "all", `"destination"="Main"`},
		"requested by a user": {
			`{consumerQueueRef: {name: orders}, requestedBy: alice, maxMessages: 5, selector: {ids: [aaaabbbbccccdddd], reasons: [Rejected],
			headers: [{name: token, operator: In, values: [s3cret, other]}], diedAfter: "2026-01-01T00:00:00Z", expression: size < 65536}}`,
			"alice", `ids: 1, reasons: [Rejected], headers: [token In (2 values)], diedAfter: 2026-01-01T00:00:00Z, expression: size < 65536`,
			`"destination"="Main" "maxMessages"=5`,
		},
		"of unknown origin": {
			`{consumerQueueRef: {name: orders}, selector: {unknownOrigin: true}}`, "unknown", "unknownOrigin", `"destination"="Main"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRedriveWorld(t, controllertest.InSync(t, `{}`), test.spec)
			w.HoldMoves()
			w.Broker.SetMessages("orders.dlq", 9)
			var lines []string
			w.logTo(&lines)
			w.reconcile()
			<-w.Mover.Begun
			w.Mover.Ended = mover.Progress{State: mover.Moving, Moved: 4, Skipped: map[string]int{"NotSelected": 5}}
			w.Mover.End <- nil
			for w.get().Status.CompletionTime == nil {
				w.ReconcileWhenEnqueued()
			}
			topologytest.Equal(t, "lines", 2, len(lines))
			who := `"uid"="uid" "requestedBy"="` + test.requestedBy + `"`
			for i, parts := range [][]string{
				{
					`"msg"="Started"`, `"name"={"name"="again" "namespace"="shop"}`, who, `"selection"="` + test.selection + `"`,
					`"source"="orders.dlq"`, `"total"=9`, `"dryRun"=false`, test.parameters,
				},
				{
					`"msg"="Ended"`, who, `"outcome"="Completed"`,
					`"counts"="4 of 9 messages moved, 5 skipped (NotSelected)"`,
				},
			} {
				for _, part := range parts {
					if !strings.Contains(lines[i], part) {
						t.Errorf("line %d lacks %s: %s", i, part, lines[i])
					}
				}
				if strings.Contains(lines[i], "s3cret") {
					t.Errorf("line %d shows a header: %s", i, lines[i])
				}
			}
		})
	}
}

func TestARedriveThatIsDeletedWhileItRunsIsLogged(t *testing.T) {
	t.Parallel()
	w := newRedriveWorld(t, controllertest.InSync(t, `{}`), all)
	w.HoldMoves()
	w.Broker.SetMessages("orders.dlq", 9)
	var lines []string
	w.logTo(&lines)
	w.reconcile()
	<-w.Mover.Begun
	if err := w.API.Delete(t.Context(), w.get()); err != nil {
		t.Fatal(err)
	}
	w.Reconcile()
	w.ReconcileWhenEnqueued()
	topologytest.Equal(t, "lines", 2, len(lines))
	for _, part := range []string{`"msg"="The job was deleted before it ended"`, `"uid"="uid"`, `"requestedBy"="unknown"`, `"messages"=1`} {
		if !strings.Contains(lines[len(lines)-1], part) {
			t.Errorf("the last line lacks %s: %v", part, lines)
		}
	}
}

func TestADryRunThatStopsIsNotLoggedAsAMove(t *testing.T) {
	t.Parallel()
	w := newRedriveWorld(t, controllertest.InSync(t, `{}`), `{consumerQueueRef: {name: orders}, dryRun: true}`)
	w.begin()
	w.Mover.Stopped = mover.Progress{State: mover.Moving, Moved: 3}
	var lines []string
	w.logTo(&lines)
	w.edit(func(spec *v1alpha1.RedriveSpec) { spec.Cancel = true })
	for w.get().Status.CompletionTime == nil {
		w.reconcile()
	}
	topologytest.Equal(t, "lines", 1, len(lines))
	if want := `"counts"="3 of 9 messages would be moved"`; !strings.Contains(lines[0], want) {
		t.Errorf("the line lacks %s: %s", want, lines[0])
	}
}

// A job may be deleted before it continues. Its last line has the counts.
func TestARedriveThatStopsIsLogged(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		stop    func(w *redriveWorld)
		outcome string
	}{
		"suspended": {func(w *redriveWorld) {
			w.edit(func(spec *v1alpha1.RedriveSpec) { spec.Suspend = true })
			w.Reconcile()
		}, "Suspended"},
		"stalled": {func(w *redriveWorld) { w.Mover.End <- brokererr.ErrAccessRefused }, "PermissionDenied"},
		"stopped because another job needs its slot": {func(w *redriveWorld) {
			tasks := w.Reconciler.Tasks
			tasks.mu.Lock()
			defer tasks.mu.Unlock()
			running := tasks.of[Key{Redrive, again}]
			running.reclaimed = mover.Progress{State: mover.DestinationBusy}
			running.stop()
		}, "DestinationBusy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRedriveWorld(t, controllertest.InSync(t, `{}`), all)
			w.HoldMoves()
			w.Broker.SetMessages("orders.dlq", 9)
			w.Mover.Stopped = mover.Progress{State: mover.Moving, Moved: 3}
			var lines []string
			w.logTo(&lines)
			w.reconcile()
			<-w.Mover.Begun
			test.stop(w)
			for w.Reconciler.Tasks.get(Key{Redrive, again}, "uid").HasBegun() {
				w.ReconcileWhenEnqueued()
			}
			topologytest.Equal(t, "lines", 2, len(lines))
			for _, part := range []string{
				`"msg"="Stopped"`, `"uid"="uid"`, `"requestedBy"="unknown"`, `"outcome"="` + test.outcome + `"`,
				`"counts"="3 of 9 messages moved"`,
			} {
				if !strings.Contains(lines[len(lines)-1], part) {
					t.Errorf("the last line lacks %s: %v", part, lines)
				}
			}
		})
	}
}

func TestAChangedRateIsLogged(t *testing.T) {
	t.Parallel()
	w := newRedriveWorld(t, controllertest.InSync(t, `{}`), `{consumerQueueRef: {name: orders}, requestedBy: alice, rate: 50}`)
	config := w.begin()
	var lines []string
	w.logTo(&lines)
	w.reconcile()
	topologytest.Equal(t, "lines before the change", 0, len(lines))
	w.edit(func(spec *v1alpha1.RedriveSpec) { spec.Rate = new(intstr.FromInt32(70)) })
	w.reconcile()
	w.reconcile()
	topologytest.Equal(t, "rate", 70, config.Settings().Rate)
	topologytest.Equal(t, "lines", 1, len(lines))
	for _, part := range []string{`"msg"="Changed the rate"`, `"uid"="uid"`, `"requestedBy"="alice"`, `"rate"=70`} {
		if !strings.Contains(lines[0], part) {
			t.Errorf("the line lacks %s: %s", part, lines[0])
		}
	}
}

func TestParametersOfARedriveInTheLog(t *testing.T) {
	t.Parallel()
	spec := v1alpha1.RedriveSpec{Destination: &v1alpha1.RedriveDestination{
		Type: v1alpha1.RedriveToConsumerQueue, ConsumerQueueRef: &v1alpha1.LocalObjectReference{Name: "returns"},
	}}
	topologytest.Equal(t, "to another ConsumerQueue", []any{"destination", v1alpha1.RedriveToConsumerQueue, "destinationConsumerQueue", "returns"},
		redriveParameters(&spec))
	spec = v1alpha1.RedriveSpec{Destination: &v1alpha1.RedriveDestination{Type: v1alpha1.RedriveToRetry, Delay: "5m"}, MaxMessages: new(int32(9))}
	topologytest.Equal(t, "to a delay tier", []any{"destination", v1alpha1.RedriveToRetry, "destinationDelay", v1alpha1.Duration("5m"), "maxMessages", int32(9)},
		redriveParameters(&spec))
}
