package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/jobs"
	"github.com/warren-mq/warren/internal/deadletterapi/listing"
)

// kind is the kind of a job, as it appears in paths.
type kind string

const (
	redrive kind = "redrive"
	purge   kind = "purge"
)

// transfer is a Redrive or a Purge, with the fields that both have.
type transfer struct {
	Kind                                         kind
	Namespace, Name, ConsumerQueue, Source, Dest string
	DryRun                                       bool
	RequestedBy, Why                             string
	// Rate is the rate of the job. Suspended is true while it waits to be resumed.
	Rate      string
	Suspended bool
	Created   time.Time
	// Completed is when the job ended; zero while it runs.
	Completed time.Time

	// Begun is true if the numbers are known: Done messages were moved or deleted, and Examined of Total were examined.
	Begun                 bool
	Done, Examined, Total int64
	// AtMost is how many messages may have been moved or deleted, if that is more than Done.
	AtMost int64
	// UnderWay is how many messages the job has yet to examine while it holds messages.
	UnderWay int64
	// Limit is the limit of moved or deleted messages; zero for none.
	Limit    int64
	Skipped  []skipped
	Failed   int64
	Failures []v1alpha1.RedriveFailure

	Outcome jobs.Outcome
	Reason  string
	Message string
}

// skipped is the number of messages that stay for a reason.
type skipped struct {
	Reason string
	Count  int64
}

// Ended reports whether the job reads no more messages.
func (t transfer) Ended() bool { return t.Outcome.Ended() }

// Most is how many messages can be moved or deleted.
func (t transfer) Most() int64 {
	if t.Limit > 0 {
		return min(t.Limit, t.Total)
	}
	return t.Total
}

// Progress is the progress towards Most. A job with a limit ends when it has moved or deleted that many messages.
func (t transfer) Progress() int64 {
	if t.Most() < t.Total {
		return t.Done
	}
	return t.Examined
}

// DoneText returns the number of moved or deleted messages.
func (t transfer) DoneText() string { return jobs.DoneText(t.Outcome, t.Done, t.AtMost, thousands) }

// Noun is the kind in words.
func (t transfer) Noun() string {
	if t.Kind == purge {
		return "Purge"
	}
	return "Redrive"
}

// Participle is moved or deleted.
func (t transfer) Participle() string {
	if t.Kind == purge {
		return "deleted"
	}
	return "moved"
}

func redriveOf(r *v1alpha1.Redrive) transfer {
	t := transfer{Kind: redrive, ConsumerQueue: r.Spec.ConsumerQueueRef.Name, Dest: string(r.Status.Destination)}
	t.DryRun, t.RequestedBy, t.Why = r.Spec.DryRun, r.Spec.RequestedBy, r.Spec.Reason
	t.Rate, t.Suspended = rateOf(r.Spec.Rate), r.Spec.Suspend
	t.Done, t.Failed, t.Failures = ptr.Deref(r.Status.Moved, 0), ptr.Deref(r.Status.Failed, 0), r.Status.Failures
	t.UnderWay = listing.UnderWayByRedrive(r)
	if r.Spec.MaxMessages != nil {
		t.Limit = int64(*r.Spec.MaxMessages)
	}
	t.take(r, r.Status.TransferStatus)
	return t
}

func purgeOf(p *v1alpha1.Purge) transfer {
	t := transfer{Kind: purge, ConsumerQueue: p.Spec.ConsumerQueueRef.Name}
	t.DryRun, t.RequestedBy, t.Why = p.Spec.DryRun, p.Spec.RequestedBy, p.Spec.Reason
	t.Rate, t.Suspended = rateOf(p.Spec.Rate), p.Spec.Suspend
	t.Done, t.Limit, t.UnderWay = ptr.Deref(p.Status.Deleted, 0), int64(p.Spec.ExpectedAtMost), listing.UnderWayByPurge(p)
	if t.DryRun {
		t.Done = ptr.Deref(p.Status.Matched, 0)
	}
	t.take(p, p.Status.TransferStatus)
	return t
}

// take sets the fields that both kinds have.
func (t *transfer) take(object client.Object, status v1alpha1.TransferStatus) {
	t.Namespace, t.Name, t.Created = object.GetNamespace(), object.GetName(), object.GetCreationTimestamp().Time
	t.Source, t.Begun = string(status.Source), status.Total != nil
	if status.CompletionTime != nil {
		t.Completed = status.CompletionTime.Time
	}
	t.Total, t.Examined, t.AtMost = ptr.Deref(status.Total, 0), ptr.Deref(status.Examined, 0), ptr.Deref(status.AtMost, 0)
	for _, reason := range slices.Sorted(maps.Keys(status.Skipped)) {
		t.Skipped = append(t.Skipped, skipped{reason, status.Skipped[reason]})
	}
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	if ready != nil {
		t.Reason, t.Message = ready.Reason, ready.Message
	}
	t.Outcome = jobs.OutcomeOf(object)
}

// transferOf converts a Redrive or a Purge.
func transferOf(object client.Object) transfer {
	if deletes, isPurge := object.(*v1alpha1.Purge); isPurge {
		return purgeOf(deletes)
	}
	return redriveOf(object.(*v1alpha1.Redrive))
}

// empty returns an empty object of the kind; nil if there is no such kind.
func (k kind) empty() client.Object {
	switch k {
	case redrive:
		return &v1alpha1.Redrive{}
	case purge:
		return &v1alpha1.Purge{}
	}
	return nil
}

// transfers lists the Redrives and Purges of a namespace, the newest first.
func (s *Server) transfers(ctx context.Context, namespace string) ([]transfer, error) {
	redrives, purges := &v1alpha1.RedriveList{}, &v1alpha1.PurgeList{}
	for _, list := range []client.ObjectList{redrives, purges} {
		if err := s.Kube.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
	}
	var all []transfer
	for i := range redrives.Items {
		all = append(all, redriveOf(&redrives.Items[i]))
	}
	for i := range purges.Items {
		all = append(all, purgeOf(&purges.Items[i]))
	}
	slices.SortStableFunc(all, func(a, b transfer) int { return b.Created.Compare(a.Created) })
	return all, nil
}

const transferPath = "/namespaces/{namespace}/transfers/{kind}/{name}"

// found reads the object that a path names.
func (s *Server) found(r *http.Request) (client.Object, error) {
	object := kind(r.PathValue("kind")).empty()
	if object == nil {
		return nil, errNoPage
	}
	return object, s.Kube.Get(r.Context(), client.ObjectKey{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}, object)
}

// transfer shows the progress of a Redrive or Purge.
func (s *Server) transfer(w http.ResponseWriter, r *http.Request) error {
	object, err := s.found(r)
	if err != nil {
		return err
	}
	return render(w, "transfer", transferOf(object))
}

// The buttons on the page of a job that has not ended.
const (
	buttonRate    = "rate"
	buttonSuspend = "suspend"
	buttonResume  = "resume"
	buttonCancel  = "cancel"
)

// changeOf returns the change of a button to the spec of a job.
func changeOf(button, rate string) (map[string]any, error) {
	switch button {
	case buttonSuspend, buttonResume:
		return map[string]any{"suspend": button == buttonSuspend}, nil
	case buttonCancel:
		return map[string]any{"cancel": true}, nil
	case buttonRate:
		parsed, err := request{Rate: rate}.rate()
		if err == nil && parsed == nil {
			err = &problem{http.StatusBadRequest, "Messages per second: enter a number from 1, or Unlimited."}
		}
		return map[string]any{"rate": parsed}, err
	}
	return nil, &problem{http.StatusBadRequest, fmt.Sprintf("%q is not a button of this page.", button)}
}

// change changes a running job.
func (s *Server) change(w http.ResponseWriter, r *http.Request) error {
	if err := r.ParseForm(); err != nil {
		return &problem{http.StatusBadRequest, "The form cannot be read: " + err.Error()}
	}
	change, err := changeOf(r.PostForm.Get("do"), r.PostForm.Get("rate"))
	if err != nil {
		return err
	}
	object, err := s.found(r)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"spec": change})
	if err != nil {
		return err
	}
	if err := s.Kube.Patch(r.Context(), object, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return err
	}
	toTransfer(w, r, kind(r.PathValue("kind")), object)
	return nil
}

// toTransfer redirects to the page of a Redrive or Purge.
func toTransfer(w http.ResponseWriter, r *http.Request, of kind, object client.Object) {
	to := path("namespaces", object.GetNamespace(), "transfers", string(of), object.GetName())
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// rateOf formats a rate for the form; empty for the default.
func rateOf(rate *intstr.IntOrString) string {
	if rate == nil {
		return ""
	}
	return rate.String()
}

// jobsPage lists the jobs of a namespace.
type jobsPage struct {
	Namespace string
	Jobs      []transfer
}

// jobs lists the Redrives and Purges of a namespace, the newest first.
func (s *Server) jobs(w http.ResponseWriter, r *http.Request) error {
	page := jobsPage{Namespace: r.PathValue("namespace")}
	all, err := s.transfers(r.Context(), page.Namespace)
	if err != nil {
		return err
	}
	page.Jobs = slices.DeleteFunc(all, func(each transfer) bool { return each.DryRun })
	return render(w, "jobs", page)
}
