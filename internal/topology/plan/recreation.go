package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// Limits and waits of a recreation.
const (
	// maxRecordedBindings limits the bindings of a queue, because the status lists all of them.
	maxRecordedBindings = 64
	// maxRecordedBytes limits the arguments of these bindings together, in bytes.
	maxRecordedBytes = 64 << 10
	// maxRecreationAttempts is how often a recreation may fail; see countsAsAttempt.
	maxRecreationAttempts = 3
	// retryRecreation is the wait after a failed attempt. retrySoon is the wait after an attempt that failed because a consumer or a
	// message arrived.
	retryRecreation = 10 * time.Minute
	retrySoon       = 30 * time.Second
)

// Recreation is a queue that must be recreated.
type Recreation struct {
	// Queue is the desired queue, and Found the queue at the broker.
	Queue topology.Queue
	Found vhost.Queue
	// Bindings are all bindings of the queue, including foreign ones.
	Bindings []vhost.Binding
	// Foreign: Warren has not declared the queue and has never seen it in sync, so the recreation needs an approval.
	Foreign bool
	// Upgraded: the queue differs only because the broker was upgraded, so the recreation needs an approval.
	Upgraded bool
	// AtMostOnce: the queue dead-letters at most once.
	AtMostOnce bool
	// Refusal is why the queue cannot be recreated; empty if it can.
	Refusal string
}

// recreationOrder is the order in which queues of a ConsumerQueue are recreated, one at a time.
var recreationOrder = []v1alpha1.Role{v1alpha1.RoleDelayTier, v1alpha1.RoleDeadLetter, v1alpha1.RoleMain}

// NextRecreation returns the queue to recreate next: first the delay tiers, then the dead-letter queue, then the main queue. It
// returns false if no queue or exchange requires recreation.
func NextRecreation(comparison Comparison, known topology.Inventory, observed vhost.Observed, input Input) (Recreation, bool) {
	var next Recreation
	found := false
	for _, entry := range comparison.Entries {
		if entry.State != v1alpha1.StateRecreationRequired {
			continue
		}
		if entry.Role == v1alpha1.RoleSource {
			return Recreation{Upgraded: comparison.Upgraded, Refusal: fmt.Sprintf("exchange %q: %s", entry.Name, sourceAdvice)}, true
		}
		if entry.Exchange != nil {
			return Recreation{Upgraded: comparison.Upgraded, Refusal: fmt.Sprintf(
				"only durable quorum queues are recreated: delete exchange %q by hand, and Warren declares it again", entry.Name)}, true
		}
		if found && slices.Index(recreationOrder, next.Queue.Role) <= slices.Index(recreationOrder, entry.Role) {
			continue
		}
		next, found = recreationOf(entry, comparison, known, observed, input), true
	}
	return next, found
}

func recreationOf(
	entry Entry, comparison Comparison, known topology.Inventory, observed vhost.Observed, input Input,
) Recreation {
	r := Recreation{
		Queue: *entry.Queue, Found: observed.Queues[entry.Name], Bindings: observed.BindingsTo[entry.Name],
		Foreign: !topology.Owns(known[entry.ID()]), Upgraded: comparison.Upgraded,
	}
	if _, deadLetters := r.Found.Arguments[vhost.ArgDeadLetterExchange]; deadLetters {
		r.AtMostOnce = !vhost.DeadLettersAtLeastOnce(entry.Name, r.Found.Arguments, observed.Policies)
	}
	for _, refuse := range []func(Recreation, vhost.Observed, Input) string{
		refuseKind, refuseOtherInstance, refuseShared, refuseBindings, refuseOperatorPolicy,
	} {
		if r.Refusal = refuse(r, observed, input); r.Refusal != "" {
			break
		}
	}
	return r
}

func refuseKind(r Recreation, _ vhost.Observed, _ Input) string {
	found := r.Found
	if found.Type() == vhost.TypeQuorum && found.Durable && !found.AutoDelete && !found.Exclusive {
		return ""
	}
	kind := cmp.Or(found.Type(), vhost.TypeClassic)
	switch {
	case found.Exclusive:
		kind = "exclusive"
	case found.AutoDelete:
		kind = "auto-delete"
	case !found.Durable:
		kind = "transient"
	}
	return fmt.Sprintf("only durable quorum queues are recreated, and queue %q is %s: delete queue %q by hand, and Warren declares it "+
		"again", r.Queue.Name, kind, r.Queue.Name)
}

func refuseOtherInstance(_ Recreation, _ vhost.Observed, input Input) string {
	if input.OtherInstance == "" {
		return ""
	}
	return input.OtherInstance + ": give each instance its own vhost"
}

func refuseShared(r Recreation, _ vhost.Observed, input Input) string {
	entry := topology.EntryOf(r.Queue.ID())
	if input.Shared == nil || !input.Shared(entry) {
		return ""
	}
	return fmt.Sprintf("another ConsumerQueue also names queue %q: give each ConsumerQueue its own queue, or delete queue %q by hand",
		r.Queue.Name, r.Queue.Name)
}

func refuseBindings(r Recreation, _ vhost.Observed, _ Input) string {
	if count := len(r.Bindings); count > maxRecordedBindings {
		return fmt.Sprintf("queue %q has %d bindings, and at most %d can be moved: remove bindings, or delete the queue by hand",
			r.Queue.Name, count, maxRecordedBindings)
	}
	size := 0
	for _, binding := range r.Bindings {
		size += len(binding.Arguments.JSON())
	}
	if size > maxRecordedBytes {
		return fmt.Sprintf("the bindings of queue %q have %d bytes of arguments, and at most %d can be moved: remove bindings, or delete "+
			"the queue by hand", r.Queue.Name, size, maxRecordedBytes)
	}
	return ""
}

// droppingKeys are the keys of an operator policy that may drop or expire messages of a queue.
var droppingKeys = []string{
	vhost.KeyExpires, vhost.KeyMaxLength, vhost.KeyMaxLengthBytes, vhost.KeyMessageTTL, vhost.KeyOverflow,
}

// refuseOperatorPolicy: no policy outranks an operator policy, so the operator policy would drop messages of the queue while they are
// moved.
func refuseOperatorPolicy(r Recreation, observed vhost.Observed, _ Input) string {
	effective, possible := vhost.PoliciesOf(r.Queue.Name, vhost.TypeQuorum, observed.Policies, true)
	if effective != nil {
		possible = append(possible, effective)
	}
	for _, policy := range possible {
		for _, key := range droppingKeys {
			if _, set := policy.Definition[key]; set {
				return fmt.Sprintf("operator policy %q sets %s and would drop messages of queue %q while they are moved: "+
					"exclude the queue from its pattern", policy.Name, key, r.Queue.Name)
			}
		}
	}
	return ""
}

// Moment is the state that decides whether a recreation begins now.
type Moment struct {
	Settings topology.Recreation
	// Generation and PlanHash are the current values of the resource.
	Generation int64
	PlanHash   string
	// Approved and Aborted are the values of the annotations.
	Approved, Aborted string
	// Status is the status of this recreation; zero if the recreation is new.
	Status v1alpha1.RecreationStatus
	// Consumers and Ready are how many consumers and ready messages the queue has.
	Consumers int
	Ready     int64
	Now       time.Time
}

// ResetAttempts resets the count of failed attempts if the user may have removed their cause: the spec was changed, the plan was approved
// again, or the recreation was aborted. A later approval ends an abort.
func (m *Moment) ResetAttempts() {
	isApprovedAnew := m.Approved != "" && m.Approved == m.PlanHash && m.Approved != m.Status.ApprovedPlanHash
	if isApprovedAnew || m.isAborted() || m.Generation != m.Status.AttemptsGeneration {
		m.Status.Attempts = 0
	}
	m.Status.AttemptsGeneration = m.Generation
}

// Verdict is whether a recreation begins. If not, it has the reason and message of the condition.
type Verdict struct {
	Begins          bool
	Reason, Message string
	// Again is when to decide again without an event; zero if only an event can change the verdict.
	Again time.Duration
}

// pollRecreation is how soon consumers and messages are counted again.
const pollRecreation = 5 * time.Second

// Permit decides whether a recreation may begin, regardless of the consumers and messages of the queue.
func (r Recreation) Permit(m Moment) Verdict {
	last := m.Status.LastResult
	switch {
	case r.Upgraded && !m.IsApproved(): // before all other reasons, because the queue works as it is
		return r.approvalNeeded(m)
	case r.Refusal != "":
		return Verdict{Reason: v1alpha1.ReasonRecreationBlocked, Message: r.Refusal, Again: time.Minute}
	case m.isAborted():
		return Verdict{Reason: v1alpha1.ReasonRecreationAborted, Message: fmt.Sprintf(
			"recreation %s of queue %q was aborted. To let Warren start again, remove the annotation %s",
			m.Aborted, r.Queue.Name, v1alpha1.AbortRecreationAnnotation)}
	case m.Status.Attempts >= maxRecreationAttempts && last != nil:
		return Verdict{Reason: v1alpha1.ReasonRecreationBlocked, Message: fmt.Sprintf("%d attempts failed, the last one because %s. "+
			"Warren tries again when you change the spec, or when you abort and then approve the recreation",
			m.Status.Attempts, last.Message)}
	case r.NeedsApproval(m.Settings) && !m.IsApproved():
		return r.approvalNeeded(m)
	}
	if wait := retryWait(m); wait > 0 {
		message := fmt.Sprintf("the recreation of queue %q was backed out because %s. Warren tries again %s after that recreation ended",
			r.Queue.Name, last.Message, contract.Duration(waitAfter(*last)))
		return Verdict{Reason: v1alpha1.ReasonRecreationPending, Message: message, Again: wait}
	}
	return Verdict{Begins: true}
}

// MovesMessages reports whether a recreation moves the ready messages of a queue with this role. Otherwise it begins only when the queue
// has none.
func MovesMessages(settings topology.Recreation, role v1alpha1.Role) bool {
	return settings.Policy == v1alpha1.RecreatePolicyMigrate && role == v1alpha1.RoleMain
}

// Decide decides whether a permitted recreation begins now. Its messages do not count ready messages, because the number changes all the
// time, and each change would write the status.
func (r Recreation) Decide(m Moment) Verdict {
	limit := int64(0)
	if MovesMessages(m.Settings, r.Queue.Role) {
		limit = m.Settings.MaxReady
	}
	switch {
	case m.Consumers > 0:
		return Verdict{Reason: v1alpha1.ReasonWaitingForConsumers, Again: pollRecreation, Message: fmt.Sprintf(
			"Warren recreates queue %q after its %s", r.Queue.Name, counted(m.Consumers, "consumer has stopped", "consumers have stopped"))}
	case m.Ready > limit && limit == 0:
		return Verdict{Reason: v1alpha1.ReasonWaitingUntilEmpty, Again: pollRecreation, Message: fmt.Sprintf(
			"Warren recreates queue %q when it holds no ready message", r.Queue.Name)}
	case m.Ready > limit:
		return Verdict{Reason: v1alpha1.ReasonWaitingUntilEmpty, Again: pollRecreation, Message: fmt.Sprintf(
			"Warren recreates queue %q when at most %d messages are ready (recreation.maxReadyMessages)", r.Queue.Name, limit)}
	case m.Ready > 0 && r.AtMostOnce:
		return Verdict{Reason: v1alpha1.ReasonRecreationBlocked, Again: pollRecreation, Message: fmt.Sprintf(
			"queue %q dead-letters at most once, so its dead letters may be lost while its messages are moved: empty the queue first",
			r.Queue.Name)}
	}
	return Verdict{Begins: true}
}

func counted(count int, one, many string) string {
	if count == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", count, many)
}

// NeedsApproval reports whether a user must approve the recreation. A queue that was never in sync may belong to another team.
func (r Recreation) NeedsApproval(settings topology.Recreation) bool {
	return r.Foreign || r.Upgraded || settings.Policy == v1alpha1.RecreatePolicyMigrate && !settings.Automatic
}

// IsApproved reports whether the plan is approved. An approval applies to all queues that the plan recreates, one after the
// other.
func (m Moment) IsApproved() bool {
	accepted := m.Status.ApprovedPlanHash == m.Approved && m.Status.ApprovedGeneration == m.Generation
	return m.Approved != "" && (m.Approved == m.PlanHash || accepted)
}

// isAborted reports whether the recreation is aborted. An abort applies to the planned recreation, and to the next attempt after
// the recreation that it names. That recreation may have been backed out for another reason before it noticed the abort.
func (m Moment) isAborted() bool {
	last := m.Status.LastResult
	return m.Aborted != "" && (m.Aborted == m.Status.ID ||
		last != nil && last.Result == v1alpha1.RecreationBackedOut && m.Aborted == last.ID)
}

func (r Recreation) approvalNeeded(m Moment) Verdict {
	why := "recreatePolicy is Migrate and recreation.approval is Required"
	switch {
	case r.Foreign:
		why = "Warren did not declare this queue, and never saw it in sync"
	case r.Upgraded:
		why = "the queue has the form for an older RabbitMQ, and works"
	}
	how := fmt.Sprintf("See kubectl warren plan, then run kubectl warren approve, or set the annotation %s to %s",
		v1alpha1.ApproveRecreationAnnotation, m.PlanHash)
	if m.Approved == "" {
		return Verdict{Reason: v1alpha1.ReasonApprovalNeeded, Message: fmt.Sprintf(
			"the recreation of queue %q needs an approval, because %s. %s", r.Queue.Name, why, how)}
	}
	return Verdict{Reason: v1alpha1.ReasonApprovalStale, Message: fmt.Sprintf(
		"the plan has changed since the recreation of queue %q was approved. %s", r.Queue.Name, how)}
}

func waitAfter(last v1alpha1.RecreationResult) time.Duration {
	if countsAsAttempt(last.Reason) {
		return retryRecreation
	}
	return retrySoon
}

// retryWait returns how long a recreation that was backed out still waits for its next attempt.
func retryWait(m Moment) time.Duration {
	last := m.Status.LastResult
	waits := last != nil && last.Result == v1alpha1.RecreationBackedOut && last.Reason != v1alpha1.BackOutAborted
	if !waits || countsAsAttempt(last.Reason) && m.Status.Attempts == 0 { // see ResetAttempts
		return 0
	}
	return waitAfter(*last) - m.Now.Sub(last.Time.Time)
}
