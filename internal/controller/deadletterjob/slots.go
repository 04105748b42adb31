package deadletterjob

import (
	"cmp"
	"fmt"
	"time"
)

// Limits of concurrent tasks. Each has an AMQP connection, and may hold a body of amqpconn.LargestBody in memory.
const (
	// namespaceSlots limits the jobs of a namespace that move, delete or count messages. A job that waits for a queue or for the broker
	// does not count, so that it delays no other job.
	namespaceSlots = 4
	// namespaceJobs limits the jobs of a namespace that have begun, and processJobs those of all namespaces. While less than half of
	// processJobs have begun, a namespace may have several jobs. The other half is reserved for namespaces without a job.
	namespaceJobs = 8
	processJobs   = 32
	// slotKept is how long a move that waits for a queue or for the broker keeps its slot if another job needs the slot.
	slotKept = 30 * time.Second
)

type slotLimit string

const (
	namespaceSlotsFull slotLimit = "namespaceSlots"
	namespaceJobsFull  slotLimit = "namespaceJobs"
	// firstHalfFull: the free slots are reserved for namespaces without a job.
	firstHalfFull   slotLimit = "firstHalf"
	processJobsFull slotLimit = "processJobs"
)

// Wait is why a job does not get its turn now. The zero value means that it need not wait.
type Wait struct {
	// blockedBy has the turn at the queue.
	blockedBy Key
	// namesake: the move of a deleted job of the same name has not ended.
	namesake bool
	// full is the limit that leaves no slot. begun is how many jobs of the namespace have begun.
	full  slotLimit
	begun int
}

// textFor describes the Wait for a job that takes messages from a queue, and what its user can do.
func (w Wait) textFor(job Key, queue string) string {
	const earlier = "To make it begin earlier, suspend or cancel one of them"
	switch {
	case w.namesake:
		return fmt.Sprintf("a deleted %s of the same name has not ended yet. This %[1]s begins when the deleted one ends", job.Kind)
	case w.full == namespaceSlotsFull:
		return fmt.Sprintf("%d Redrives and Purges of this namespace take messages, which is the maximum. This %s begins when one of "+
			"them ends or waits. %s", namespaceSlots, job.Kind, earlier)
	case w.full == namespaceJobsFull:
		return fmt.Sprintf("%d Redrives and Purges of this namespace have begun, which is the maximum. This %s begins when one of "+
			"them ends. %s", namespaceJobs, job.Kind, earlier)
	case w.full == firstHalfFull:
		return fmt.Sprintf("at least %d of %d slots for Redrives and Purges are taken, and the others are reserved for namespaces "+
			"without a Redrive or Purge. This namespace has %d. This %s begins when the others of this namespace end, or when fewer than "+
			"%[1]d slots are taken. To make it begin earlier, suspend or cancel the others of this namespace",
			processJobs/2, processJobs, w.begun, job.Kind)
	case w.full == processJobsFull:
		return fmt.Sprintf("%d Redrives and Purges of other namespaces have begun, which is the maximum. This %s begins when one of them "+
			"ends. Changes in this namespace do not make it begin earlier", processJobs, job.Kind)
	}
	return w.blockedBy.Uses(queue, job.Namespace)
}

// usage counts the jobs of a namespace that have begun, and the jobs among them that do not wait.
type usage struct{ begun, slots int }

func (t *Tasks) count(namespace string) (used usage) {
	for key, has := range t.of {
		if key.Namespace != namespace {
			continue
		}
		used.begun++
		if !has.waits() {
			used.slots++
		}
	}
	return used
}

// fullLimit returns the limit that keeps another job from beginning in a namespace with this usage; empty if one may begin.
func (t *Tasks) fullLimit(used usage) slotLimit {
	switch {
	case used.slots >= namespaceSlots:
		return namespaceSlotsFull
	case used.begun >= namespaceJobs:
		return namespaceJobsFull
	case used.begun > 0 && len(t.of) >= processJobs/2:
		return firstHalfFull
	case len(t.of) >= processJobs:
		return processJobsFull
	}
	return ""
}

// reclaim stops one move that waits, because a job of a namespace with this usage needs its slot. The end of the move enqueues the job,
// which calls reclaim again if it needs another slot. Without reclaim, jobs that wait for days would block other jobs that could take
// messages now. The stopped job continues later, unless a job of another ConsumerQueue takes messages from a shared queue meanwhile: then
// checkOvertaken ends it.
func (t *Tasks) reclaim(namespace string, used usage, full slotLimit) {
	if full == namespaceSlotsFull { // jobs that wait do not count
		return
	}
	var longest *Task
	most := 0
	for key, has := range t.of {
		if has.isReclaimed() && has.runs() { // its slot will soon be free
			return
		}
		begun := t.count(key.Namespace).begun
		switch {
		case !has.mayBeReclaimed(t.slotKept):
			continue
		case key.Namespace == namespace, full == processJobsFull:
		case full == namespaceJobsFull, begun <= used.begun+1: // the other namespace would end up with fewer jobs
			continue
		}
		if longest == nil || cmp.Or(cmp.Compare(begun, most), longest.waitsSince.Compare(has.waitsSince)) > 0 {
			longest, most = has, begun
		}
	}
	if longest != nil {
		longest.reclaimed = longest.Progress
		longest.stop()
	}
}

// isReclaimed reports whether the move was stopped because another job needed its slot.
func (t Task) isReclaimed() bool { return t.reclaimed.State != "" }

// mayBeReclaimed reports whether the move has waited for some time and can be stopped without harm. A queue with a delivery limit may
// drop a message that the move returns.
func (t Task) mayBeReclaimed(kept time.Duration) bool {
	return t.waits() && !t.Stopped && time.Since(t.waitsSince) >= kept && (!t.config.DeliveryLimited || t.Progress.Held == 0)
}
