package ui

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/jobs"
	"github.com/warren-mq/warren/internal/deadletterapi/parameters"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// countTime is the limit for counting messages.
const countTime = time.Minute

// request has the fields of the form for a job.
type request struct {
	selection
	Kind            jobs.Kind
	Namespace, Name string
	// To is Main, Original, retry/DELAY or queue/NAME.
	To, Rate, Limit, Why string
}

// The values of To. A delay tier is toTier with its delay, another ConsumerQueue is toQueue with its name.
const (
	toMain  = "Main"
	toTier  = "retry/"
	toQueue = "queue/"
)

func requestOf(r *http.Request, given url.Values) (request, error) {
	q := request{
		selection: selectionOf(given), Kind: jobs.Kind(r.PathValue("kind")),
		Namespace: r.PathValue("namespace"), Name: r.PathValue("queue"),
		To: given.Get("to"), Rate: given.Get("rate"), Limit: given.Get("limit"), Why: strings.TrimSpace(given.Get("why")),
	}
	if q.Kind.Empty() == nil {
		return q, errNoPage
	}
	return q, nil
}

// Fields returns the fields as hidden fields of the next form.
func (q request) Fields() url.Values {
	fields := q.values()
	for name, value := range map[string]string{"to": q.To, "rate": q.Rate, "limit": q.Limit, "why": q.Why} {
		fields.Set(name, value)
	}
	return fields
}

// Verb returns the verb for the job.
func (q request) Verb() string {
	if q.Kind == jobs.Purge {
		return "Delete"
	}
	return "Move"
}

// requestPage is the form.
type requestPage struct {
	request
	Reasons []reasonChoice
	// Tiers are the delays of the delay tiers.
	Tiers []string
	// Others are the ConsumerQueues to which messages can be moved.
	Others []string
}

// reasonChoice is a box to tick.
type reasonChoice struct {
	Name   string
	Chosen bool
}

// askFor shows the form of a new Redrive or Purge.
func (s *Server) askFor(w http.ResponseWriter, r *http.Request) error {
	asked, err := requestOf(r, r.URL.Query())
	if err != nil {
		return err
	}
	if r.URL.Query().Has(parameterChosen) && len(asked.IDs) == 0 {
		return &problem{http.StatusBadRequest, "No message is chosen. Go back and choose messages in the list."}
	}
	page := requestPage{request: asked}
	for _, reason := range parameters.Reasons {
		page.Reasons = append(page.Reasons, reasonChoice{reason, slices.Contains(asked.Reasons, reason)})
	}
	list := &v1alpha1.ConsumerQueueList{}
	if err := s.Kube.List(r.Context(), list, client.InNamespace(asked.Namespace)); err != nil {
		return err
	}
	for i := range list.Items {
		if name := list.Items[i].Name; name != asked.Name {
			page.Others = append(page.Others, name)
		} else {
			page.Tiers = tiersOf(&list.Items[i])
		}
	}
	return render(w, "request", page)
}

// tiersOf returns the delays of the delay tiers of a ConsumerQueue; none if the spec is invalid.
func tiersOf(cq *v1alpha1.ConsumerQueue) []string {
	found, _ := topology.QueueNamesOf(cq, vhost.RabbitMQ40) // delays are the same on all versions
	delays := make([]string, len(found.Tiers))
	for i, tier := range found.Tiers {
		delays[i] = topology.CompactDelay(tier.Delay.Milliseconds())
	}
	return delays
}

// parameterJobName is the field of confirmPage.JobName.
const parameterJobName = "jobName"

// uncounted replaces the number in the confirmation if the messages cannot be counted.
const uncounted = "all"

// confirmPage is the question after the count.
type confirmPage struct {
	request
	Counted jobs.Job
	// Count is the number of messages to move or delete.
	Count int64
	// Uncounted is true if the messages cannot be counted, but all of them can be moved.
	Uncounted bool
	// Mistyped is the input of the user if it is not the number.
	Mistyped string
	// JobName is the name of the job to create. A confirmation that is sent twice names the same job.
	JobName string
}

func (p confirmPage) DestinationText() string { return jobs.DestinationText(p.destination()) }

func (p confirmPage) RateText() (string, error) {
	rate, err := p.rate()
	return jobs.RateText(rate), err
}

// request counts the selected messages, or creates the job after the confirmation.
func (s *Server) request(w http.ResponseWriter, r *http.Request) error {
	if err := r.ParseForm(); err != nil {
		return &problem{http.StatusBadRequest, "The form cannot be read: " + err.Error()}
	}
	asked, err := requestOf(r, r.PostForm)
	if err != nil {
		return err
	}
	page := confirmPage{request: asked, JobName: strings.TrimRight(asked.Name[:min(len(asked.Name), 240)], ".-") + "-" + rand.String(10)}
	if r.PostForm.Has("counted") {
		if page.Mistyped = mistyped(asked, r.PostForm); page.Mistyped == "" {
			return s.create(w, r, asked)
		}
	}
	object, err := s.object(r.Context(), asked)
	if err != nil {
		return err
	}
	if page.Counted, err = s.count(r.Context(), object); err != nil {
		return err
	}
	page.Count = page.Counted.Done
	if limit, err := strconv.ParseInt(asked.Limit, 10, 64); err == nil {
		page.Count = min(page.Count, limit)
	}
	page.Uncounted = page.Counted.Reason == v1alpha1.ReasonDeliveryLimited && asked.mayBeUncounted()
	if !page.Counted.Outcome.HasCounted() && !page.Uncounted {
		return &problem{http.StatusConflict, "The messages cannot be counted: " + page.Counted.Reason + ": " + page.Counted.Message}
	}
	return render(w, "confirm", page)
}

// mistyped returns the input of the user if it is not the number of messages to delete; empty if the number was typed.
func mistyped(asked request, given url.Values) string {
	typed := strings.TrimSpace(given.Get("typed"))
	if asked.Kind == jobs.Purge && strings.ReplaceAll(typed, ",", "") != given.Get("counted") {
		return strconv.Quote(typed)
	}
	return ""
}

// mayBeUncounted reports whether the job may run without a count, which only a Redrive of all messages may.
func (q request) mayBeUncounted() bool { return q.Kind == jobs.Redrive && q.IsAll() && q.Limit == "" }

// confirmed limits a job to the confirmed number of messages.
func (q request) confirmed(counted string) (request, error) {
	if counted == uncounted && q.mayBeUncounted() {
		return q, nil
	}
	if number, err := strconv.ParseInt(counted, 10, 32); err != nil || number < 1 {
		return q, &problem{http.StatusBadRequest, fmt.Sprintf("counted: %q must be a number from 1. Count the messages again.", counted)}
	}
	q.Limit = counted
	return q, nil
}

func (s *Server) create(w http.ResponseWriter, r *http.Request, asked request) error {
	asked, err := asked.confirmed(r.PostForm.Get("counted"))
	if err != nil {
		return err
	}
	object, err := s.object(r.Context(), asked)
	if err != nil {
		return err
	}
	object.SetName(r.PostForm.Get(parameterJobName))
	if err := s.Kube.Create(r.Context(), object); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	toJob(w, r, asked.Kind, object)
	return nil
}

// object returns the requested Redrive or Purge, by the user of the page.
func (s *Server) object(ctx context.Context, asked request) (client.Object, error) {
	requester, err := s.Username(ctx)
	if err != nil {
		return nil, fmt.Errorf("spec.requestedBy: the API server does not return your user name: %w", err)
	}
	return asked.object(requester)
}

// object returns the requested Redrive or Purge.
func (q request) object(requester string) (client.Object, error) {
	limit, err := q.limit()
	if err != nil {
		return nil, err
	}
	meta := metav1.ObjectMeta{Namespace: q.Namespace, GenerateName: q.Name + "-"}
	from := v1alpha1.LocalObjectReference{Name: q.Name}
	if q.Kind == jobs.Purge {
		spec := v1alpha1.PurgeSpec{
			ConsumerQueueRef: from, Selector: q.spec(), ExpectedAtMost: math.MaxInt32, RequestedBy: requester, Reason: q.Why,
			TTLSecondsAfterFinished: new(jobs.KeepSeconds),
		}
		if limit != nil {
			spec.ExpectedAtMost = *limit
		}
		return &v1alpha1.Purge{ObjectMeta: meta, Spec: spec}, nil
	}
	rate, err := q.rate()
	if err != nil {
		return nil, err
	}
	return &v1alpha1.Redrive{ObjectMeta: meta, Spec: v1alpha1.RedriveSpec{
		ConsumerQueueRef: from, Destination: q.destination(), Selector: q.spec(), MaxMessages: limit, Rate: rate,
		RequestedBy: requester, Reason: q.Why, TTLSecondsAfterFinished: new(jobs.KeepSeconds),
	}}, nil
}

func (q request) limit() (*int32, error) {
	if q.Limit == "" {
		return nil, nil
	}
	limit, err := strconv.ParseInt(q.Limit, 10, 32)
	if err != nil || limit < 1 {
		return nil, &problem{http.StatusBadRequest, fmt.Sprintf("At most: %q must be a number from 1, or empty for all.", q.Limit)}
	}
	return new(int32(limit)), nil
}

func (q request) rate() (*intstr.IntOrString, error) {
	if q.Rate == "" {
		return nil, nil
	}
	if strings.EqualFold(q.Rate, v1alpha1.Unlimited) {
		return new(intstr.FromString(v1alpha1.Unlimited)), nil
	}
	rate, err := strconv.ParseInt(q.Rate, 10, 32)
	if err != nil || rate < 1 {
		return nil, &problem{http.StatusBadRequest, fmt.Sprintf("Messages per second: %q must be a number from 1, or Unlimited.", q.Rate)}
	}
	return new(intstr.FromInt32(int32(rate))), nil
}

func (q request) destination() *v1alpha1.RedriveDestination {
	if name, isQueue := strings.CutPrefix(q.To, toQueue); isQueue {
		return &v1alpha1.RedriveDestination{
			Type: v1alpha1.RedriveToConsumerQueue, ConsumerQueueRef: &v1alpha1.LocalObjectReference{Name: name},
		}
	}
	if delay, isTier := strings.CutPrefix(q.To, toTier); isTier {
		return &v1alpha1.RedriveDestination{Type: v1alpha1.RedriveToRetry, Delay: v1alpha1.Duration(delay)}
	}
	if q.To == "" || q.To == toMain {
		return nil
	}
	return &v1alpha1.RedriveDestination{Type: v1alpha1.RedriveDestinationType(q.To)}
}

// count creates a dry run, waits for its result, and deletes it.
func (s *Server) count(ctx context.Context, object client.Object) (jobs.Job, error) {
	jobs.MakeDryRun(object)
	if err := s.Kube.Create(ctx, object); err != nil {
		return jobs.Job{}, err
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_ = s.Kube.Delete(ending, object) // otherwise its TTL deletes it
	}()
	waiting, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	last := jobs.Of(object)
	for waiting.Err() == nil && !last.Outcome.IsSettled() {
		if err := s.follow(waiting, object, func(now jobs.Job) bool {
			last = now
			return !now.Outcome.IsSettled()
		}); err != nil && waiting.Err() == nil {
			return last, err
		}
	}
	if !last.Outcome.IsSettled() {
		text := "The messages were not counted within a minute: " + last.Reason + ": " + last.Message
		return last, &problem{http.StatusGatewayTimeout, text}
	}
	return last, nil
}
