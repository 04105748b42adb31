package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/deadletterapi/listing"
)

// Kind is the kind of a job, as it appears in arguments and paths.
type Kind string

// The kinds of jobs.
const (
	Redrive Kind = "redrive"
	Purge   Kind = "purge"
)

// Empty returns an empty object of the kind; nil if there is no such kind.
func (k Kind) Empty() client.Object {
	switch k {
	case Redrive:
		return &v1alpha1.Redrive{}
	case Purge:
		return &v1alpha1.Purge{}
	}
	return nil
}

// Job is a Redrive or a Purge, with the fields that both have. It describes Object at the time of Of.
type Job struct {
	Object                                       client.Object
	Kind                                         Kind
	Namespace, Name, ConsumerQueue, Source, Dest string
	DryRun                                       bool
	RequestedBy, Why                             string
	// Rate is the rate of the job; empty for the default. Suspended is true while it waits to be resumed.
	Rate      string
	Suspended bool
	Created   time.Time
	// Completed is when the job ended; zero while it runs.
	Completed time.Time
	// IsRead is true if Warren has read the newest spec.
	IsRead bool

	// Begun is true if the counts are known: Done messages were moved or deleted, and Examined of Total messages were examined.
	Begun                 bool
	Done, Examined, Total int64
	// AtMost is how many messages may have been moved or deleted, if that is more than Done.
	AtMost int64
	// Matched is how many messages a Purge has counted; nil before, and for a Redrive.
	Matched *int64
	// UnderWay is how many messages the job has yet to examine, move or delete while it holds messages.
	UnderWay int64
	// Limit is the limit of moved or deleted messages; zero for none.
	Limit int64
	// Skipped is the number of messages that stay, by reason.
	Skipped  map[string]int64
	Failed   int64
	Failures []v1alpha1.RedriveFailure

	Outcome Outcome
	// Reason and Message are copied from the condition Ready; empty if there is none.
	Reason, Message string
}

// Of describes a Redrive or a Purge.
func Of(object client.Object) Job {
	if purge, isPurge := object.(*v1alpha1.Purge); isPurge {
		return ofPurge(purge)
	}
	return ofRedrive(object.(*v1alpha1.Redrive))
}

// List lists Redrives and Purges. If the user may not list one of the two kinds, List leaves it out, and forbidden says why.
func List(
	ctx context.Context, reader client.Reader, options ...client.ListOption,
) (redrives []v1alpha1.Redrive, purges []v1alpha1.Purge, forbidden, err error) {
	redriveList, purgeList := &v1alpha1.RedriveList{}, &v1alpha1.PurgeList{}
	redrivesErr, purgesErr := reader.List(ctx, redriveList, options...), reader.List(ctx, purgeList, options...)
	switch {
	case purgesErr != nil && !apierrors.IsForbidden(purgesErr):
		return nil, nil, nil, purgesErr
	case redrivesErr != nil && (purgesErr != nil || !apierrors.IsForbidden(redrivesErr)):
		return nil, nil, nil, redrivesErr
	}
	return redriveList.Items, purgeList.Items, errors.Join(redrivesErr, purgesErr), nil
}

// All describes Redrives and Purges, in their order.
func All(redrives []v1alpha1.Redrive, purges []v1alpha1.Purge) []Job {
	all := make([]Job, 0, len(redrives)+len(purges))
	for i := range redrives {
		all = append(all, ofRedrive(&redrives[i]))
	}
	for i := range purges {
		all = append(all, ofPurge(&purges[i]))
	}
	return all
}

func ofRedrive(r *v1alpha1.Redrive) Job {
	j := ofBoth(r, Redrive, r.Status.JobStatus)
	j.ConsumerQueue, j.Dest = r.Spec.ConsumerQueueRef.Name, string(r.Status.Destination)
	j.DryRun, j.RequestedBy, j.Why = r.Spec.DryRun, r.Spec.RequestedBy, r.Spec.Reason
	j.Rate, j.Suspended = rateOf(r.Spec.Rate), r.Spec.Suspend
	j.Done, j.Failed, j.Failures = ptr.Deref(r.Status.Moved, 0), ptr.Deref(r.Status.Failed, 0), r.Status.Failures
	j.Limit, j.UnderWay = int64(ptr.Deref(r.Spec.MaxMessages, 0)), listing.UnderWayByRedrive(r)
	return j
}

func ofPurge(p *v1alpha1.Purge) Job {
	j := ofBoth(p, Purge, p.Status.JobStatus)
	j.ConsumerQueue = p.Spec.ConsumerQueueRef.Name
	j.DryRun, j.RequestedBy, j.Why = p.Spec.DryRun, p.Spec.RequestedBy, p.Spec.Reason
	j.Rate, j.Suspended = rateOf(p.Spec.Rate), p.Spec.Suspend
	j.Done, j.Matched = ptr.Deref(p.Status.Deleted, 0), p.Status.Matched
	j.Limit, j.UnderWay = int64(p.Spec.ExpectedAtMost), listing.UnderWayByPurge(p)
	if j.DryRun {
		j.Done = ptr.Deref(j.Matched, 0)
	}
	return j
}

// ofBoth sets the fields that metadata and the common status contain.
func ofBoth(object client.Object, kind Kind, status v1alpha1.JobStatus) Job {
	j := Job{
		Object: object, Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(),
		Created: object.GetCreationTimestamp().Time, IsRead: status.ObservedGeneration >= object.GetGeneration(),
		Source: string(status.Source), Begun: status.Total != nil, Total: ptr.Deref(status.Total, 0),
		Examined: ptr.Deref(status.Examined, 0), AtMost: ptr.Deref(status.AtMost, 0), Skipped: status.Skipped, Outcome: outcomeOf(status),
	}
	if status.CompletionTime != nil {
		j.Completed = status.CompletionTime.Time
	}
	if ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady); ready != nil {
		j.Reason, j.Message = ready.Reason, ready.Message
	}
	return j
}

// rateOf formats a rate for a form; empty for the default.
func rateOf(rate *intstr.IntOrString) string {
	if rate == nil {
		return ""
	}
	return rate.String()
}

// Ended reports whether the job reads no more messages.
func (j Job) Ended() bool { return j.Outcome.Ended() }

// Noun returns the kind in words.
func (j Job) Noun() string {
	if j.Kind == Purge {
		return "Purge"
	}
	return "Redrive"
}

// Participle returns "moved" or "deleted".
func (j Job) Participle() string {
	if j.Kind == Purge {
		return "deleted"
	}
	return "moved"
}

// Max returns how many messages can be moved or deleted.
func (j Job) Max() int64 {
	if j.Limit > 0 {
		return min(j.Limit, j.Total)
	}
	return j.Total
}

// Progress returns the progress towards Max. A job with a limit ends when it has moved or deleted that many messages.
func (j Job) Progress() int64 {
	if j.Max() < j.Total {
		return j.Done
	}
	return j.Examined
}

// DoneText formats the number of messages that the job moved or deleted. After a crash, an ended job knows only a range.
func (j Job) DoneText(number func(int64) string) string {
	if j.Ended() && j.AtMost > j.Done {
		return number(j.Done) + " to " + number(j.AtMost)
	}
	return number(j.Done)
}

// Counts describes the progress of a job that has begun. A Purge first counts all messages, and then deletes.
func (j Job) Counts(number func(int64) string) string {
	of, counts, skipped := j.Total, j.DryRun, int64(0)
	if j.Kind == Purge {
		of, counts = ptr.Deref(j.Matched, 0), j.DryRun || j.Matched == nil
	}
	for _, count := range j.Skipped { // not Examined - Done, which includes messages that the broker has not confirmed yet
		skipped += count
	}
	line := fmt.Sprintf("%s of %s %s", j.DoneText(number), number(of), j.Participle())
	if counts {
		line = fmt.Sprintf("%s of %s examined", number(j.Examined), number(j.Total))
	}
	if skipped > 0 {
		line += fmt.Sprintf(", %s skipped", number(skipped))
	}
	if j.Failed > 0 {
		line += fmt.Sprintf(", %s failed", number(j.Failed))
	}
	return line
}

// Pace returns how many messages were moved or deleted, and how many are left; false if the job has not begun to move or delete messages.
func (j Job) Pace() (done, left int64, begun bool) {
	if j.Kind == Purge {
		return j.Done, ptr.Deref(j.Matched, 0) - j.Done, j.Matched != nil
	}
	return j.Done, j.Total - j.Examined, j.Begun
}
