package recreationmodel

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/test/deadline"
)

// This file is a model of a recreation with everything that may happen meanwhile. It explores every order of the steps of two
// managers, a publisher, a consumer, crashes, late deletes, moves of the queue's leader, a new queue that lacks a member, an abort, another
// approval after it, a deletion of the ConsumerQueue, and the loss of the status. It checks that no confirmed message is ever lost, that an aborted recreation leaves the
// old queue, and that a single manager leaves no hold queue and no fence behind. The decisions are the product's: NextStep, BackOut,
// Finished, Planned, Permit and Recovered. The steps at the broker are the steps of internal/rabbit/recreate and safedelete, in their order.
//
// Each guard of the protocol can be left out. Then the model must find a loss, two deletes at the same time, a new queue in spite of an
// abort, or a hold queue that is left behind: otherwise it would not see that the guard is missing in the product either.

// guard is a rule of the protocol.
type guard string

// The guards. A model lacks at most one of them.
const (
	allGuards          guard = ""
	holdBeforeUnbind   guard = "the hold queue is bound before the queue is unbound"
	bindBeforeHoldGoes guard = "the queue is bound before the hold queue is unbound"
	confirmBeforeAck   guard = "a moved message is acknowledged after its copy was confirmed"
	holdDeletedEmpty   guard = "the hold queue is deleted when it is empty"
	noReadyMessage     guard = "a sentinel shows that no message is in the queue"
	noConsumer         guard = "the queue is not deleted while a consumer holds messages"
	fenceBeforeProof   guard = "the fence is closed before the proof"
	fenceStays         guard = "the fence stays closed while a delete may be under way"
	deleteRecorded     guard = "the status says that a delete is sent before it is sent"
	deleteSettles      guard = "a second delete waits for the first one"
	repeatSettles      guard = "behind the fence of a repeated swap, a new queue does not mean that the delete has ended"
	repeatSearches     guard = "behind the fence of a repeated swap, a new queue may hold a sentinel"
	noWayBack          guard = "there is no way back after a delete was sent"
	statusLocked       guard = "a manager does not overwrite the status of its successor"
	deleteNeedsLease   guard = "a manager without the lease sends no delete"
	unbindNeedsLease   guard = "a manager without the lease unbinds nothing"
	fenceMeansDelete   guard = "where the status is lost, a fence counts as a delete that was sent"
	lostWaits          guard = "where the status is lost, nothing is given back while a delete may be under way"
	abortStopsDelete   guard = "no delete is recorded after an abort"
	abortStays         guard = "an aborted recreation begins again only after an approval"
	deletionWaits      guard = "a deletion of the ConsumerQueue waits for the recreation"
)

var guards = []guard{
	holdBeforeUnbind, bindBeforeHoldGoes, confirmBeforeAck, holdDeletedEmpty, noReadyMessage, noConsumer, fenceBeforeProof, fenceStays,
	deleteRecorded, deleteSettles, repeatSettles, repeatSearches, noWayBack, statusLocked, deleteNeedsLease, unbindNeedsLease, fenceMeansDelete, lostWaits,
	abortStopsDelete, abortStays, deletionWaits,
}

// Places of a message, as bits: there may be several copies.
const (
	inMain  = 1 << iota
	inHold  // in the hold queue
	unacked // with the consumer, and counted in the queue
	acked   // the consumer has processed it
)

// What the queue is.
const (
	oldQueue = iota
	noQueue
	newQueue
)

// phases are the phases of the status, by their number in the model. over is the status after the recreation.
var phases = []v1alpha1.RecreationPhase{
	v1alpha1.RecreationDiverting, v1alpha1.RecreationEmptying, v1alpha1.RecreationSwapping, v1alpha1.RecreationGivingBack, "",
}

const (
	diverting = iota
	emptying
	swapping
	givingBack
	over
)

// world is a state of the model.
type world struct {
	// message 0 is published through the exchange, 1 by the queue's name with mandatory; each until it is confirmed.
	message   [2]uint8
	confirmed [2]bool

	queue                  uint8
	bound, holdBound, hold bool
	fenced, sentinel       bool
	repeatFence            bool  // the fence is of a repeated swap
	lacksMember            bool  // the new queue
	deletes                uint8 // under way
	twoDeletes             bool
	consumer               bool
	status                 written
	managers               [3]manager
	leader                 uint8
	lost                   bool // the status is lost
	aborted                bool // the annotation names the recreation
	keepsOld               bool // it was aborted before the status said that a delete was sent
	deleted                bool // the user has deleted the ConsumerQueue, which also counts as aborted
	gone                   bool // its topology was deleted, and its finalizer removed
	budget                 budget
}

// written is status.recreation.
type written struct {
	phase                                        uint8
	sent, goesBack, aborted, emptied, statusLost bool
}

// manager is what a manager knows besides the status.
type manager struct {
	works   bool
	repeats bool    // the swap
	status  written // as it was when the work began
	isLast  bool    // status.recreation.runs shows that no other manager has begun work since
	step    uint8
	moving  uint8 // 1 + the message that is being moved
	from    uint8 // where the original is, which the broker delivers to no other consumer until the manager stops; zero once it is acknowledged
	past    bool  // it has moved a message that came after the queue was emptied
}

// budget is how often something may still happen.
type budget struct {
	consumers, crashes, successions, leaderMoves, missingMembers, aborts, approvals, statusLosses, deletions uint8
}

type move struct {
	what string
	to   world
}

// exploredRecreation collects the next states of a state.
type exploredRecreation struct {
	without guard
	moves   []move
}

func (e *exploredRecreation) has(g guard) bool { return e.without != g }

func (e *exploredRecreation) add(what string, to world) { e.moves = append(e.moves, move{what, to}) }

func (w world) ready() bool { return (w.message[0]|w.message[1])&inMain != 0 || w.sentinel }

// held reports whether a consumer holds a message of the queue, or a manager that moves it.
func (w world) held() bool { return (w.message[0]|w.message[1])&unacked != 0 || w.takenFrom(inMain) }

func (w world) takenFrom(place uint8) bool {
	return slices.ContainsFunc(w.managers[:], func(m manager) bool { return m.from == place })
}

// stop ends a manager.
func (w *world) stop(who uint8) {
	w.stopMove(who)
	w.managers[who] = manager{}
}

// stopMove ends the move of a manager. The broker gives back what it was moving, if the queue is still there.
func (w *world) stopMove(who uint8) {
	m := &w.managers[who]
	if m.from == inMain && w.queue != noQueue || m.from == inHold && w.hold {
		w.message[m.moving-1] |= m.from
	}
	m.moving, m.from = 0, 0
}

// takes reports whether the queue takes a message: a fence is a limit of one message.
func (w world) takes() bool { return w.queue != noQueue && (!w.fenced || !w.ready() && !w.held()) }

func (w world) isLost() bool {
	for i, places := range w.message {
		taken := slices.ContainsFunc(w.managers[:], func(m manager) bool { return m.from != 0 && int(m.moving) == i+1 })
		if w.confirmed[i] && places == 0 && !taken {
			return true
		}
	}
	return false
}

// isOver reports whether the recreation has ended, and no manager works any more.
func (w world) isOver() bool {
	return w.status.phase == over && !slices.ContainsFunc(w.managers[:], func(m manager) bool { return m.works })
}

func (e *exploredRecreation) next(w world) {
	if w.gone {
		return
	}
	e.publish(w)
	e.consume(w)
	e.happen(w)
	for i := range w.managers {
		if w.managers[i].works {
			e.work(w, uint8(i))
		}
	}
}

func (e *exploredRecreation) publish(w world) {
	if !w.confirmed[0] {
		n, refused := w, false
		if w.bound && w.queue != noQueue {
			if refused = !w.takes(); !refused {
				n.message[0] |= inMain
			}
		}
		if w.holdBound && w.hold {
			n.message[0] |= inHold
		}
		n.confirmed[0] = !refused // RabbitMQ confirms what it routes to no queue
		e.add("the publisher publishes through the exchange", n)
	}
	if !w.confirmed[1] && w.takes() {
		n := w
		n.message[1], n.confirmed[1] = n.message[1]|inMain, true
		e.add("the publisher publishes by name", n)
	}
}

// consume adds the worlds in which the consumer starts or stops. ADR 0014 does not exclude that a consumer comes between the last check and the effect of the
// delete.
func (e *exploredRecreation) consume(w world) {
	checked := slices.ContainsFunc(w.managers[:], func(m manager) bool { return m.works && m.status.phase == swapping && m.step == 4 })
	if !w.consumer {
		if w.budget.consumers > 0 && w.queue != noQueue && w.deletes == 0 && !checked {
			n := w
			n.consumer, n.budget.consumers = true, n.budget.consumers-1
			e.add("the consumer comes", n)
		}
		return
	}
	n := w
	n.consumer = false
	n.requeue()
	e.add("the consumer goes", n)
	for i := range w.message {
		n := w
		switch {
		case w.message[i]&unacked != 0:
			n.message[i] = n.message[i]&^unacked | acked
			e.add("the consumer acknowledges", n)
		case w.message[i]&inMain != 0:
			n.message[i] = n.message[i]&^inMain | unacked
			e.add("the consumer gets a message", n)
		}
	}
	if w.sentinel {
		n := w
		n.sentinel = false
		e.add("the consumer takes the sentinel", n)
	}
}

// requeue gives back what the consumer holds.
func (w *world) requeue() {
	for i := range w.message {
		if w.message[i]&unacked != 0 {
			w.message[i] = w.message[i]&^unacked | inMain
		}
	}
}

// happen makes the steps that no actor decides.
func (e *exploredRecreation) happen(w world) {
	if w.deletes > 0 {
		n := w
		n.deletes--
		n.queue, n.bound, n.sentinel, n.consumer = noQueue, false, false, false
		for i := range n.message {
			n.message[i] &^= inMain | unacked
		}
		for i := range n.managers {
			if n.managers[i].from == inMain {
				n.managers[i].from = 0
			}
		}
		e.add("a delete takes effect", n)
	}
	if w.budget.leaderMoves > 0 && w.held() {
		n := w
		n.budget.leaderMoves--
		n.requeue()
		e.add("the leader of the queue moves", n)
	}
	if w.deleted && (!e.has(deletionWaits) || !w.lost && w.isOver()) {
		e.add("the topology is deleted", w.tornDown())
	}
	if w.status.phase == over {
		e.plan(w)
		return
	}
	if w.budget.deletions > 0 && !w.aborted {
		n := w
		n.budget.deletions--
		n.deleted, n.aborted = true, true
		e.add("the user deletes the ConsumerQueue", n)
	}
	if w.budget.aborts > 0 && !w.aborted {
		n := w
		n.budget.aborts--
		n.aborted, n.keepsOld = true, !w.lost && !w.status.sent && !w.status.statusLost && (w.status.phase != givingBack || w.status.goesBack)
		e.add("the user aborts the recreation", n)
	}
	leader := w.managers[w.leader]
	if w.budget.crashes > 0 && leader.works {
		n := w
		n.budget.crashes--
		n.stop(w.leader)
		e.add("the manager crashes", n)
	}
	if w.budget.successions > 0 && leader.works {
		n := w
		n.budget.successions--
		n.leader++ // a process that lost the lease never gets it again: it exits
		e.add("another manager gets the lease", n)
	}
	if w.budget.statusLosses > 0 && !leader.works && w.hold {
		n := w
		n.budget.statusLosses--
		n.status, n.lost, n.keepsOld = written{}, true, false
		e.add("the status is lost", n)
	}
	if !leader.works {
		n := w
		if w.lost {
			n.recover(e, false)
		} else {
			n.status.set(e.backedOut(w, w.status.get()))
		}
		n.begin(w.leader)
		e.add("a manager begins work", n)
	}
	if !leader.works && w.lost {
		n := w
		n.recover(e, true)
		n.begin(w.leader)
		e.add("a manager begins work, and the spec asks for the old arguments", n)
	}
}

// tornDown is the state after the topology was deleted. A queue with messages is retained.
func (w world) tornDown() world {
	w.stop(w.leader)
	if !w.ready() && !w.held() {
		w.queue, w.bound = noQueue, false
	}
	w.status.phase, w.gone = over, true
	return w
}

// plan begins another recreation after an aborted one, as planRecreation does after a pause.
func (e *exploredRecreation) plan(w world) {
	if !w.aborted || w.deleted || w.queue != oldQueue || w.managers[w.leader].works {
		return
	}
	const former = "former"
	recreation := plan.Recreation{Queue: topology.Queue{Name: "orders"}}
	ended := w.status.get()
	ended.ID, ended.Queue = former, recreation.Queue.Name
	finished := plan.Finished(ended, metav1.Time{})
	for _, approves := range []bool{false, true} {
		if approves && w.budget.approvals == 0 {
			continue
		}
		moment := plan.Moment{
			PlanHash: "plan", Approved: "plan", Aborted: former, Now: time.Now(),
			Status: plan.Planned(&finished, recreation.Queue, func() string { return "next" }),
		}
		if approves || !e.has(abortStays) { // an approval removes the annotation
			moment.Aborted = ""
		}
		moment.ResetAttempts()
		if !recreation.Permit(moment).Begins {
			continue
		}
		n := w
		n.status, n.aborted = written{phase: diverting}, false
		if approves {
			n.budget.approvals--
			n.keepsOld = false
		}
		n.begin(w.leader)
		e.add("another recreation begins", n)
	}
}

// begin writes the status with another number of runs, and begins the work of its phase.
func (w *world) begin(by uint8) {
	w.stop(by)
	for i := range w.managers {
		w.managers[i].isLast = false
	}
	if w.status.phase != over {
		w.managers[by] = manager{works: true, status: w.status, isLast: true}
	}
}

// recover derives a status from the objects at the broker. If the spec was edited back, it takes the old queue for the new one.
func (w *world) recover(e *exploredRecreation, editedBack bool) {
	isNew := w.queue == newQueue && !editedBack || w.queue == oldQueue && editedBack
	found := plan.Found{Fenced: w.fenced && e.has(fenceMeansDelete), Exists: w.queue != noQueue, IsNew: isNew}
	w.status.set(plan.Recovered(v1alpha1.RecreationStatus{}, found))
	w.lost = false
}

// get and set convert between the status of the model and that of the product.
func (s written) get() v1alpha1.RecreationStatus {
	status := v1alpha1.RecreationStatus{Phase: phases[s.phase], DeleteSent: s.sent}
	if s.goesBack {
		status.BackOutReason = v1alpha1.BackOutNotProven
	}
	if s.aborted {
		status.BackOutReason = v1alpha1.BackOutAborted
	}
	if s.statusLost {
		status.BackOutReason = v1alpha1.BackOutStatusLost
	}
	return status
}

func (s *written) set(status v1alpha1.RecreationStatus) {
	s.phase = uint8(slices.Index(phases, status.Phase))
	s.sent, s.goesBack = status.DeleteSent, status.BackOutReason != ""
	s.aborted = status.BackOutReason == v1alpha1.BackOutAborted
	s.statusLost = status.BackOutReason == v1alpha1.BackOutStatusLost
}

// end is the end of the work of a phase: the manager decides and writes the status, as advance does.
func (e *exploredRecreation) end(w world, by uint8, outcome plan.Outcome, sent bool) {
	m := w.managers[by]
	if !m.isLast && e.has(statusLocked) {
		w.stop(by)
		e.add("a manager finds that it is outdated", w)
		return
	}
	if !e.has(statusLocked) {
		w.status = m.status
	}
	if m.status.phase == swapping {
		w.status.sent = sent
	}
	for _, settled := range []bool{false, true} {
		if settled && outcome != plan.PhaseMessagesCame && outcome != plan.PhaseNotEmpty {
			continue
		}
		n := w
		e.decide(&n, plan.PhaseEnd{Outcome: outcome, Accepts: true, Settled: settled})
		n.begin(by)
		e.add(strings.Join([]string{"phase", string(phases[m.status.phase]), "ends:", string(outcome)}, " "), n)
	}
}

func (e *exploredRecreation) decide(w *world, ended plan.PhaseEnd) {
	before := w.status.get()
	next, isOver := plan.NextStep(before, ended)
	if isOver {
		w.status = written{phase: over, goesBack: w.status.goesBack, aborted: w.status.aborted, statusLost: w.status.statusLost}
		return
	}
	if w.status.phase == emptying && (ended.Outcome == plan.PhaseDone || ended.Outcome == plan.PhaseMessagesCame) {
		w.status.emptied = true
	}
	w.status.set(e.backedOut(*w, next))
}

// backedOut returns the status, changed to back out if the user has aborted the recreation.
func (e *exploredRecreation) backedOut(w world, status v1alpha1.RecreationStatus) v1alpha1.RecreationStatus {
	if !w.aborted {
		return status
	}
	if !e.has(noWayBack) {
		status.DeleteSent = false
	}
	return plan.BackOut(status, v1alpha1.BackOutAborted, "")
}

// work is the next step of a manager.
func (e *exploredRecreation) work(w world, by uint8) {
	switch w.managers[by].status.phase {
	case diverting:
		e.divert(w, by)
	case emptying:
		e.empty(w, by)
	case swapping:
		e.swap(w, by)
	case givingBack:
		e.giveBack(w, by)
	}
}

func (w *world) step(by uint8) { w.managers[by].step++ }

// mayUnbind reports whether a manager may remove bindings at the broker. A manager without the lease stops.
func (e *exploredRecreation) mayUnbind(w world, by uint8) bool {
	if w.leader == by || !e.has(unbindNeedsLease) {
		return true
	}
	w.stop(by)
	e.add("a manager without the lease stops", w)
	return false
}

func (e *exploredRecreation) divert(w world, by uint8) {
	step := w.managers[by].step
	bindsHold := step == 0
	if !e.has(holdBeforeUnbind) {
		bindsHold = step == 1
	}
	switch {
	case step == 2:
		e.end(w, by, plan.PhaseDone, false)
	case bindsHold:
		w.hold, w.holdBound = true, w.holdBound || w.bound || !e.has(holdBeforeUnbind)
		w.step(by)
		e.add("the hold queue is declared and bound", w)
	case e.mayUnbind(w, by):
		w.bound = false
		w.step(by)
		e.add("the queue is unbound", w)
	}
}

// carry moves one message in two steps: the copy is confirmed, then the original is acknowledged. It returns false if there is none.
func (e *exploredRecreation) carry(w world, by, from, to uint8) bool {
	m := &w.managers[by]
	if m.moving > 0 {
		if !e.has(confirmBeforeAck) {
			w.message[m.moving-1] |= to
		}
		m.moving, m.from = 0, 0
		e.add("the other half of a move", w)
		return true
	}
	for i := range w.message {
		if w.message[i]&from == 0 || to == inMain && !w.takes() {
			continue
		}
		w.message[i] &^= from
		if e.has(confirmBeforeAck) {
			w.message[i] |= to
			m.from = from
		}
		m.moving, m.past = uint8(i+1), m.status.emptied
		e.add("a message is moved", w)
		return true
	}
	return false
}

func (e *exploredRecreation) empty(w world, by uint8) {
	if w.aborted {
		n := w
		n.stopMove(by)
		e.end(n, by, plan.PhaseFailed, false)
	}
	switch {
	case w.hold && e.carry(w, by, inMain, inHold):
	case w.managers[by].past:
		e.end(w, by, plan.PhaseMessagesCame, false)
	default:
		e.end(w, by, plan.PhaseDone, false)
	}
}

// clearFence takes down a fence that was left, with its sentinel; false if there is none.
func (e *exploredRecreation) clearFence(w world, by uint8) bool {
	searches := e.mayHoldSentinel(w)
	if !w.fenced && (!searches || w.consumer) {
		return false
	}
	if e.mayUnbind(w, by) {
		w.fenced, w.sentinel = false, w.sentinel && !searches
		e.add("a fence is taken down", w)
	}
	return true
}

// mayHoldSentinel reports whether the manager must search the queue for the sentinel of a fence that was left.
func (e *exploredRecreation) mayHoldSentinel(w world) bool {
	return w.sentinel && (w.queue == oldQueue || w.repeatFence && e.has(repeatSearches))
}

// declare adds the worlds in which the new queue has all members, and in which it lacks one.
func (e *exploredRecreation) declare(w world) {
	w.queue, w.lacksMember = newQueue, false
	e.add("the queue is declared", w)
	if w.budget.missingMembers > 0 {
		w.lacksMember, w.budget.missingMembers = true, w.budget.missingMembers-1
		e.add("the queue is declared without a member", w)
	}
}

// The steps of Swap: 0 settles what an earlier run may have sent; 1 closes the fence; 2 proves; 3 records the delete; 4 sends it after a
// last check; 5 declares the queue once it is gone; 6 opens the fence; 7 repeats the swap if the queue lacks a member.
func (e *exploredRecreation) swap(w world, by uint8) {
	m := w.managers[by]
	switch m.step {
	case 0:
		e.settle(w, by)
	case 1:
		if w.queue == noQueue {
			e.declare(w)
			return
		}
		if e.mayUnbind(w, by) {
			w.fenced, w.repeatFence = e.has(fenceBeforeProof), m.repeats
			w.step(by)
			e.add("the fence is closed", w)
		}
	case 2:
		if e.has(noConsumer) && (w.consumer || w.held()) {
			e.undo(w, by, plan.PhaseConsumersCame)
			return
		}
		if w.ready() && e.has(noReadyMessage) {
			e.undo(w, by, plan.PhaseNotEmpty)
			return
		}
		w.sentinel = true
		w.step(by)
		e.add("the sentinel is taken", w)
	case 3, 4:
		e.sendDelete(w, by)
	case 5:
		e.end(w, by, plan.PhaseFailed, true) // no answer came
		if w.queue == noQueue {
			w.step(by)
			e.declare(w)
		}
	case 6:
		if !e.clearFence(w, by) {
			w.step(by)
			e.add("the fence is open", w)
		}
	case 7:
		e.endSwap(w, by)
	}
}

// endSwap repeats the swap if the queue lacks a member, and ends it otherwise.
func (e *exploredRecreation) endSwap(w world, by uint8) {
	m := &w.managers[by]
	if !w.lacksMember {
		e.end(w, by, plan.PhaseDone, true)
		return
	}
	m.repeats, m.step, m.status.sent = true, 1, true
	e.add("the swap is repeated", w)
}

func (e *exploredRecreation) settle(w world, by uint8) {
	m := w.managers[by]
	switch {
	case w.queue == newQueue && w.fenced && w.repeatFence && w.deletes > 0 && e.has(repeatSettles):
		// the product waits for the end of the delete, or 30 s
	case m.status.sent && w.deletes > 0 && e.has(deleteSettles) && w.queue == oldQueue:
		if !e.has(fenceStays) && w.fenced {
			w.fenced, w.sentinel = false, false
			e.add("the fence is opened too early", w)
		} // the product waits 30 s; the model as long as it takes
	case w.queue == noQueue:
		e.declare(w)
	case e.clearFence(w, by):
	case w.queue == newQueue:
		e.endSwap(w, by)
	default:
		w.step(by)
		e.add("no delete is under way", w)
	}
}

// undo opens the fence of a proof that failed, and ends the phase. If a repeated swap fails, the new queue stays.
func (e *exploredRecreation) undo(w world, by uint8, outcome plan.Outcome) {
	repeats, isPublished := w.managers[by].repeats, w.managers[by].step > 2
	if repeats {
		outcome = plan.PhaseDone
	}
	if e.mayUnbind(w, by) {
		w.fenced, w.sentinel = false, w.sentinel && !isPublished
		e.end(w, by, outcome, repeats)
	}
}

func (e *exploredRecreation) sendDelete(w world, by uint8) {
	m := w.managers[by]
	switch {
	case e.has(noConsumer) && w.consumer:
		e.undo(w, by, plan.PhaseConsumersCame)
	case !w.sentinel && e.has(noReadyMessage):
		e.undo(w, by, plan.PhaseNotEmpty)
	case m.step == 3:
		if !m.isLast && e.has(statusLocked) {
			w.stop(by)
			e.add("a manager finds that it is outdated", w)
			return
		}
		if w.aborted && e.has(abortStopsDelete) {
			e.undo(w, by, plan.PhaseFailed)
			return
		}
		w.status.sent = e.has(deleteRecorded)
		w.managers[by].status.sent = w.status.sent
		w.step(by)
		e.add("the status says that a delete is sent", w)
	case w.leader != by && e.has(deleteNeedsLease):
		w.stop(by)
		e.add("a manager without the lease sends no delete", w)
	default:
		w.deletes++
		w.twoDeletes = w.twoDeletes || w.deletes > 1
		w.step(by)
		e.add("the delete is sent", w)
	}
}

// The steps of GiveBack: 0 takes a fence down and declares a queue that is missing; 1 binds the queue; 2 unbinds the hold queue; 3 moves
// what is left and deletes the hold queue.
func (e *exploredRecreation) giveBack(w world, by uint8) {
	step := w.managers[by].step
	if !e.has(bindBeforeHoldGoes) && (step == 1 || step == 2) {
		step = 3 - step
	}
	switch step {
	case 0:
		switch {
		case w.managers[by].status.statusLost && w.fenced && w.deletes > 0 && e.has(lostWaits):
			// the manager tries again later
		case w.queue == noQueue:
			e.declare(w)
		case !e.clearFence(w, by):
			w.step(by)
			e.add("the way back is free", w)
		}
	case 1:
		w.bound = w.bound || w.queue != noQueue
		w.step(by)
		e.add("the queue is bound", w)
	case 2:
		if e.mayUnbind(w, by) {
			w.holdBound = false
			w.step(by)
			e.add("the hold queue is unbound", w)
		}
	default:
		if w.hold && e.has(holdDeletedEmpty) && e.carry(w, by, inHold, inMain) {
			return
		}
		left := (w.message[0]|w.message[1])&inHold != 0 || w.takenFrom(inHold)
		if left && e.has(holdDeletedEmpty) {
			e.end(w, by, plan.PhaseFailed, false) // the queue takes nothing now
			return
		}
		if e.mayHoldSentinel(w) && !w.managers[by].status.statusLost { // a leftover fence then leads to it
			if !e.clearFence(w, by) {
				e.end(w, by, plan.PhaseFailed, false) // the product tries again
			}
			return
		}
		if e.mayUnbind(w, by) {
			w.hold = false
			for i := range w.message {
				w.message[i] &^= inHold
			}
			e.end(w, by, plan.PhaseDone, false)
		}
	}
}

// explore visits each state once. It returns the number of states, and the path to a forbidden state; nil if none can be reached.
// The check that no object of Warren is left behind needs a single manager: a stopped manager that has lost the lease may declare the
// hold queue again before it exits. Then each message exists twice, and none is lost.
func explore(without guard, spend budget) (count int, way []string) {
	begin := world{bound: true, consumer: false, budget: spend}
	begin.status = written{phase: diverting}
	begin.begin(0)
	type state struct {
		world
		from int    // the index of the state before
		by   string // what led from there
	}
	states, known := []state{{world: begin}}, map[world]bool{begin: true}
	e := exploredRecreation{without: without}
	for i := 0; i < len(states); i++ {
		at := states[i].world
		leavesSentinel := at.sentinel && !at.status.statusLost
		leavesSomething := spend.successions == 0 && at.isOver() && (at.fenced || at.hold || leavesSentinel)
		isNew := at.status.phase == over && at.keepsOld && at.queue != oldQueue
		if at.isLost() || at.twoDeletes || leavesSomething || isNew {
			for step := i; step != 0; step = states[step].from {
				way = append([]string{states[step].by}, way...)
			}
			return len(states), way
		}
		e.moves = e.moves[:0]
		e.next(at)
		for _, move := range e.moves {
			if !known[move.to] {
				known[move.to] = true
				states = append(states, state{move.to, i, move.what})
			}
		}
	}
	return len(states), nil
}

func TestNoMessageIsLostByARecreation(t *testing.T) {
	t.Parallel()
	for name, spend := range map[string]budget{
		"with three crashes and two managers": {consumers: 1, crashes: 3, successions: 1, leaderMoves: 1},
		"with three managers":                 {consumers: 1, crashes: 1, successions: 2},
		"with an abort":                       {consumers: 1, crashes: 2, aborts: 1},
		"with an abort and two managers":      {crashes: 1, successions: 1, aborts: 1},
		"with an abort and an approval":       {consumers: 1, crashes: 1, aborts: 2, approvals: 1},
		"with an abort and a lost status":     {crashes: 1, aborts: 1, statusLosses: 1},
		"with moves of the leader":            {consumers: 2, crashes: 1, leaderMoves: 2},
		"with missing members":                {consumers: 1, crashes: 2, missingMembers: 2},
		"with missing members and an abort":   {crashes: 1, successions: 1, missingMembers: 1, aborts: 1},
		"with the loss of the status":         {crashes: 2, statusLosses: 1},
		"with a deletion":                     {consumers: 1, crashes: 2, deletions: 1},
		"with a deletion and a lost status":   {crashes: 1, deletions: 1, statusLosses: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if spend.successions > 1 { // two million states
				deadline.InTestAll(t)
			}
			states, way := explore(allGuards, spend)
			if way != nil {
				t.Errorf("after %d states:\n  %s", states, strings.Join(way, "\n  "))
			}
			t.Logf("%d states", states)
		})
	}
}

func TestEachGuardOfARecreationIsNeeded(t *testing.T) {
	t.Parallel()
	for _, without := range guards {
		t.Run(string(without), func(t *testing.T) {
			t.Parallel()
			for _, spend := range []budget{
				{consumers: 1, crashes: 2},
				{crashes: 1, successions: 2},
				{crashes: 1, aborts: 1, approvals: 1},
				{crashes: 2, statusLosses: 1},
				{crashes: 2, missingMembers: 1},
				{deletions: 1},
			} {
				if states, way := explore(without, spend); way != nil {
					t.Logf("after %d states:\n  %s", states, strings.Join(way, "\n  "))
					return
				}
			}
			t.Error("nothing goes wrong without it")
		})
	}
}
