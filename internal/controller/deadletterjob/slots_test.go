package deadletterjob

import (
	"fmt"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/brokers/brokerstest"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/rabbit/mover"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// slots has Tasks whose moves end when they are stopped.
type slots struct {
	*Tasks

	t      *testing.T
	mover  *brokerstest.Mover
	number int
}

func newSlots(t *testing.T) *slots {
	t.Helper()
	s := &slots{t: t, Tasks: newTasks(t, func(client.ObjectKey) {}), mover: brokerstest.NewMover(nil)}
	s.slotKept = 0
	return s
}

// ask asks for a slot for a new job of a namespace. The move of the job begins if it gets one, and reports its progress.
func (s *slots) ask(namespace string, limited bool, progress mover.Progress) (job Key, wait Wait, granted bool) {
	s.t.Helper()
	s.number++
	job = Key{Redrive, client.ObjectKey{Namespace: namespace, Name: fmt.Sprint(s.number)}}
	if wait, granted = s.acquire(job, "1", queueAt("default", job.Name)); granted {
		config := silent(0)
		config.DeliveryLimited = limited
		s.begin(job, Move{Broker: &brokers.Broker{Mover: s.mover}}, config, mover.Settings{}, time.Now())
		(<-s.mover.Begun).Report(progress)
	}
	return job, wait, granted
}

// fill asks until a job is refused. No job gives its slot back meanwhile.
func (s *slots) fill(namespace string, progress mover.Progress) {
	s.t.Helper()
	s.slotKept = time.Hour
	for granted := true; granted; {
		_, _, granted = s.ask(namespace, false, progress)
	}
	s.slotKept = 0
}

// dropReclaimed drops the jobs whose moves were stopped, as the Reconciler does, and returns how many there are by namespace.
func (s *slots) dropReclaimed() map[string]int {
	s.t.Helper()
	count := map[string]int{}
	for job, task := range s.begun(Redrive) {
		if task.isReclaimed() {
			<-task.done
			s.drop(job, "1")
			count[job.Namespace]++
		}
	}
	return count
}

var (
	runs  = mover.Progress{State: mover.Moving}
	waits = mover.Progress{State: mover.DestinationFull, Detail: "full"}
)

// A text that promises that a job begins as soon as any other has ended would often be wrong.
func TestTheTextNamesTheLimitThatAJobWaitsFor(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		others map[string]mover.Progress // namespaces with as many jobs as may begin
		full   slotLimit
		text   string
	}{
		"four take messages": {
			map[string]mover.Progress{"shop": runs},
			namespaceSlotsFull,
			"4 Redrives and Purges of this namespace take messages, which is the maximum. This Redrive begins when one of them ends or waits. " +
				"To make it begin earlier, suspend or cancel one of them",
		},
		"eight have begun": {
			map[string]mover.Progress{"shop": waits},
			namespaceJobsFull,
			"8 Redrives and Purges of this namespace have begun, which is the maximum. This Redrive begins when one of them ends. " +
				"To make it begin earlier, suspend or cancel one of them",
		},
		"the rest is reserved": {
			map[string]mover.Progress{"a": runs, "b": runs, "c": runs, "d": runs, "shop": runs},
			firstHalfFull,
			"at least 16 of 32 slots for Redrives and Purges are taken, and the others are reserved for namespaces without a Redrive or Purge. " +
				"This namespace has 1. This Redrive begins when the others of this namespace end, or when fewer than 16 slots are taken. " +
				"To make it begin earlier, suspend or cancel the others of this namespace",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSlots(t)
			for _, namespace := range []string{"a", "b", "c", "d", "shop"} {
				if progress, has := test.others[namespace]; has {
					s.fill(namespace, progress)
				}
			}
			job, wait, granted := s.ask("shop", false, runs)
			topologytest.Equal(t, "granted", false, granted)
			topologytest.Equal(t, "limit", test.full, wait.full)
			topologytest.Equal(t, "text", test.text, wait.textFor(job, "orders.dlq"))
		})
	}
}

func TestTheTextIfOtherNamespacesHaveAllSlots(t *testing.T) {
	t.Parallel()
	s := newSlots(t)
	for i := range processJobs {
		s.ask(fmt.Sprint(i), false, runs)
	}
	job, wait, _ := s.ask("shop", false, runs)
	topologytest.Equal(t, "text", "32 Redrives and Purges of other namespaces have begun, which is the maximum. This Redrive begins when one "+
		"of them ends. Changes in this namespace do not make it begin earlier", wait.textFor(job, "orders.dlq"))
	topologytest.Equal(t, "jobs that gave their slot back", map[string]int{}, s.dropReclaimed())
}

// Two tenants have as many jobs as may begin, which wait for days. Another tenant gets more than one slot.
func TestJobsThatWaitGiveTheirSlotsToANamespaceWithFewer(t *testing.T) {
	t.Parallel()
	s := newSlots(t)
	s.fill("a", waits)
	s.fill("b", waits)
	_, _, granted := s.ask("shop", false, runs)
	topologytest.Equal(t, "the first begins", true, granted)
	reclaimed := map[string]int{}
	for range 2 {
		_, wait, granted := s.ask("shop", false, runs)
		topologytest.Equal(t, "granted while a job gives its slot back", false, granted)
		topologytest.Equal(t, "limit", firstHalfFull, wait.full)
		for namespace, count := range s.dropReclaimed() {
			reclaimed[namespace] += count
		}
	}
	topologytest.Equal(t, "jobs that gave their slot back", map[string]int{"a": 1, "b": 1}, reclaimed)
	_, _, granted = s.ask("shop", false, runs)
	topologytest.Equal(t, "the second begins", true, granted)
}

// A tenant with many namespaces has jobs that wait in all slots.
func TestJobsThatWaitGiveTheLastSlotBack(t *testing.T) {
	t.Parallel()
	s := newSlots(t)
	for i := range processJobs {
		_, _, granted := s.ask(fmt.Sprint(i), false, waits)
		topologytest.Equal(t, "begins", true, granted)
	}
	_, wait, _ := s.ask("shop", false, runs)
	topologytest.Equal(t, "limit", processJobsFull, wait.full)
	topologytest.Equal(t, "gave a slot back", 1, len(s.dropReclaimed()))
	_, _, granted := s.ask("shop", false, runs)
	topologytest.Equal(t, "begins then", true, granted)
}

// A namespace with eight jobs that wait can still run a ninth one.
func TestAJobThatWaitsGivesItsSlotToItsNamespace(t *testing.T) {
	t.Parallel()
	s := newSlots(t)
	s.fill("shop", waits)
	_, wait, _ := s.ask("shop", false, runs)
	topologytest.Equal(t, "limit", namespaceJobsFull, wait.full)
	topologytest.Equal(t, "gave their slot back", map[string]int{"shop": 1}, s.dropReclaimed())
	_, _, granted := s.ask("shop", false, runs)
	topologytest.Equal(t, "begins then", true, granted)
}

func TestWhichMovesKeepTheirSlots(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kept      time.Duration
		limited   bool
		progress  mover.Progress
		reclaimed bool
	}{
		"waits for the destination":           {0, false, waits, true},
		"cannot reach the broker":             {0, false, mover.Progress{State: mover.Connecting, Detail: "refused"}, true},
		"has not waited for long":             {time.Hour, false, waits, false},
		"would return a limited message":      {0, true, mover.Progress{State: mover.DestinationFull, Held: 1}, false},
		"holds no message of a limited queue": {0, true, mover.Progress{State: mover.NothingDelivered}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSlots(t)
			s.slotKept = test.kept
			for range namespaceJobs {
				s.ask("shop", test.limited, test.progress)
			}
			_, wait, _ := s.ask("shop", false, runs)
			topologytest.Equal(t, "limit", namespaceJobsFull, wait.full)
			topologytest.Equal(t, "gave a slot back", map[bool]int{true: 1}[test.reclaimed], len(s.dropReclaimed()))
		})
	}
}

// A Redrive gives its slot back, reports what it waits for, and continues later.
func TestARedriveThatGaveItsSlotBackContinues(t *testing.T) {
	t.Parallel()
	w := newRedriveWorld(t, controllertest.InSync(t, `{}`), all)
	w.HoldMoves()
	w.Broker.SetMessages("orders.dlq", 9)
	w.Mover.Stopped = mover.Progress{State: mover.DestinationFull, Detail: "full", Moved: 1}
	w.Reconcile()
	(<-w.Mover.Begun).Report(mover.Progress{State: mover.DestinationFull, Detail: "queue \"orders\" is full"})
	w.ReconcileWhenEnqueued()
	tasks := w.Reconciler.Tasks
	tasks.slotKept = 0
	tasks.mu.Lock()
	tasks.reclaim("other", usage{}, processJobsFull)
	tasks.mu.Unlock()
	w.ReconcileWhenEnqueued()
	topologytest.Equal(t, "tasks", 0, len(tasks.begun(Redrive)))
	ready := w.get().Status.Conditions
	topologytest.Equal(t, "Ready", "DestinationFull", conditions.Ready(ready).Reason)
	topologytest.Equal(t, "message", "queue \"orders\" is full. Another job needed the slot of this Redrive, which tries again every 30s",
		conditions.Ready(ready).Message)
	w.Reconcile()
	topologytest.Equal(t, "moved before", 1, (<-w.Mover.Begun).Moved)
}
