package crashpoints

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/traffic"
)

// A flow ends with the same state, wherever the manager was killed.
func TestCrashPoints(t *testing.T) {
	if testing.Short() {
		t.Skip("kills managers many hundred times")
	}
	shared, results := newParts(t), &results{}
	t.Cleanup(func() { t.Log(results) })
	for i, broker := range brokers.All(t) {
		for _, flow := range flows {
			if i > 0 && !flow.everyVersion {
				continue
			}
			t.Run(broker.Version+"/"+flow.name, func(t *testing.T) {
				t.Parallel()
				killAtEachPoint(t, shared, broker, flow, results.of(broker.Version, flow.name))
			})
		}
	}
}

// killAtEachPoint records the effects of a flow, and repeats the flow with a kill at each of them.
func killAtEachPoint(t *testing.T, shared *parts, broker brokers.Broker, flow flow, result *result) {
	t.Helper()
	var want end
	if !t.Run("without a kill", func(t *testing.T) { want = run(t, shared, broker, flow, nil) }) {
		return
	}
	t.Logf("effects:\n%s", list(want.effects))
	points := crashPoints(want.effects)
	t.Cleanup(func() { result.check(t) })
	result.effects, result.points, result.began = len(want.effects), 2*len(points), time.Now()
	for _, effect := range points {
		for _, after := range []bool{false, true} {
			point := crashPoint{effect, after}
			t.Run(strings.ReplaceAll(point.String(), "/", "."), func(t *testing.T) {
				t.Parallel()
				t.Cleanup(func() { result.finish(t.Failed()) })
				got := run(t, shared, broker, flow, &point)
				result.add(point, got)
				if diff := cmp.Diff(want.state, got.state); diff != "" {
					t.Errorf("killed %s: the state differs from that without a kill (-want +got):\n%s", point, diff)
				}
			})
		}
	}
}

// end is how a run ended.
type end struct {
	state      state
	effects    []Effect
	crashed    bool
	duplicates int
}

// state is what must be the same at the end of each run.
type state struct {
	Objects    brokers.Definitions
	Policies   []string
	Conditions map[string][]condition
	// Messages are the IDs of the prepared messages in each queue.
	Messages map[string][]string
}

// run runs a flow in a world of its own, and kills the manager at the point, if it is not nil.
func run(t *testing.T, shared *parts, broker brokers.Broker, flow flow, point *crashPoint) end {
	t.Helper()
	w := newWorld(t, shared, broker)
	flow.prepare(w)
	w.untilQuiet(1)
	w.gate.number(point)
	flow.begin(w)
	w.until("the flow "+flow.name+" is over", deadline.For(time.Minute), func() (bool, any) {
		if flow.goOn != nil {
			flow.goOn(w)
		}
		return flow.isOver(w)
	})
	confirmed := w.confirmed()
	w.checkRefusals()
	w.untilQuiet(quietIntervals)
	ended := end{effects: w.gate.recorded(), crashed: w.gate.hasCrashed()}
	ended.state = state{Objects: w.vhost.Definitions(), Policies: w.vhost.Policies(), Conditions: w.conditions()}
	ended.state.Messages, ended.duplicates = w.messages(confirmed)
	return ended
}

// conditions returns the conditions of all resources. The messages of jobs have numbers that a kill may change.
func (w *world) conditions() map[string][]condition {
	w.t.Helper()
	all := map[string][]condition{}
	if cq, exists := w.orders(); exists {
		all["ConsumerQueue"] = w.conditionsOf(cq.Status.Conditions)
	}
	bc := &v1alpha1.BrokerConnection{}
	w.get("default", bc)
	all["BrokerConnection"] = w.conditionsOf(bc.Status.Conditions)
	job := func(conditions []condition) []condition {
		for i := range conditions {
			conditions[i].Message = ""
		}
		return conditions
	}
	if redrive := (&v1alpha1.Redrive{}); w.get("again", redrive) {
		all["Redrive"] = job(w.conditionsOf(redrive.Status.Conditions))
	}
	for _, name := range []string{"first", "second"} { // the second one replaces an interrupted one
		if purge := (&v1alpha1.Purge{}); w.get(name, purge) {
			all["Purge"] = job(w.conditionsOf(purge.Status.Conditions))
		}
	}
	return all
}

// messages stops the consumer and drains all queues. It returns the IDs of the prepared messages by queue, and how many messages there are
// more than IDs. It fails the test if a confirmed message is in no queue and was not consumed, or a sentinel is left.
func (w *world) messages(confirmed []string) (prepared map[string][]string, duplicates int) {
	w.t.Helper()
	prepared = map[string][]string{}
	found := map[string]int{}
	w.stopConsumer()
	for _, id := range w.consumed {
		found[id]++
	}
	drained, sentinels := traffic.Drain(w.t, w.vhost, interval)
	if sentinels > 0 {
		w.t.Errorf("%d sentinels are left", sentinels)
	}
	for queue, ids := range drained {
		for _, id := range ids {
			found[id]++
			if !strings.HasPrefix(id, "publisher-") {
				prepared[queue] = append(prepared[queue], id)
			}
		}
		slices.Sort(prepared[queue])
		prepared[queue] = slices.Compact(prepared[queue])
	}
	maps.DeleteFunc(prepared, func(_ string, ids []string) bool { return len(ids) == 0 })
	for _, times := range found {
		duplicates += times - 1
	}
	lost := slices.DeleteFunc(confirmed, func(id string) bool { return found[id] > 0 })
	if len(lost) > 0 {
		w.t.Errorf("%d confirmed messages are lost: %s", len(lost), lost)
	}
	return prepared, duplicates
}

func list(effects []Effect) string {
	var text strings.Builder
	for i, effect := range effects {
		fmt.Fprintf(&text, "%3d %s\n", i+1, effect)
	}
	return text.String()
}

// results are the rows of the table at the end.
type results struct {
	mu  sync.Mutex
	all []*result
}

type result struct {
	version, flow string

	mu              sync.Mutex
	effects, points int
	runs, crashes   int
	unreached       []crashPoint
	deviations      int
	duplicates      int
	began, ended    time.Time
}

func (r *results) of(version, flow string) *result {
	r.mu.Lock()
	defer r.mu.Unlock()
	row := &result{version: version, flow: flow}
	r.all = append(r.all, row)
	return row
}

func (r *result) add(point crashPoint, ended end) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ended.crashed {
		r.crashes++
	} else {
		r.unreached = append(r.unreached, point)
	}
	r.duplicates += ended.duplicates
}

func (r *result) finish(failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = time.Now()
	r.runs++
	if failed {
		r.deviations++
	}
}

// check lists the crash points that were not reached, and fails the test if one of them is not a repetition; see mayBeMissing.
func (r *result) check(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, point := range r.unreached {
		if point.mayBeMissing() {
			t.Logf("not reached: %s", point)
		} else {
			t.Errorf("the crash point was not reached: %s", point)
		}
	}
	if r.crashes < r.runs*9/10 {
		t.Errorf("only %d of %d crash points were reached", r.crashes, r.runs)
	}
}

// mayBeMissing reports whether a run can have fewer of these effects than the run without a kill. Messages arrive at other moments and
// are acknowledged together. A repeated write, such as that of a status with its progress, depends on the time that the work takes.
func (p crashPoint) mayBeMissing() bool { return strings.HasPrefix(p.Kind, "basic.") || p.Number > 1 }

// String is the table.
func (r *results) String() string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(&text)
	_, _ = fmt.Fprintln(table, "flow\tRabbitMQ\teffects\tcrash points\truns\tcrashes\tdeviations\tduplicates\ttime")
	for _, row := range r.all {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", row.flow, row.version, row.effects, row.points, row.runs, row.crashes,
			row.deviations, row.duplicates, max(0, row.ended.Sub(row.began).Round(time.Second)))
	}
	_ = table.Flush()
	return text.String()
}
