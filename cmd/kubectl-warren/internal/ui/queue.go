package ui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	deadletters "github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/deadletterclient"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/deadlettertext"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/jobs"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/printable"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/deadletterapi/listing"
	"github.com/warren-mq/warren/internal/deadletterapi/parameters"
)

const (
	// defaultGroup is the default header for groups, which Warren's consumer library sets.
	defaultGroup = contract.HeaderFailureKind
	pageLimit    = 20
	// snippet is how many bytes of each body are requested for a list.
	snippet = 200
	// recently is how long an ended job is listed on the page of its queue.
	recently = time.Hour
)

// queuePage is the second view: the contents of one dead-letter queue.
type queuePage struct {
	Namespace, Name, Queue string
	Messages, Consumers    int64
	AsOf                   time.Time
	Trouble                string
	// Recreating is the queue that is being recreated or waits to be recreated; empty if there is none.
	Recreating string
	Advisories []v1alpha1.Advisory
	Jobs       []jobs.Job
	// Running is the job that takes messages from the queue; nil if there is none.
	Running *jobs.Job
	// Refused is why the queue cannot be browsed; MessagesRefused is why only counts are shown.
	Refused, MessagesRefused []string
	// Notices describe messages that were not examined.
	Notices []string

	GroupBy string
	// HasValues is true if groups differ by the header GroupBy.
	HasValues bool
	Groups    []group
	Others    int64

	Selection selection
	// ListNotices describe messages that the selector could not evaluate.
	ListNotices []string
	DeadLetters []messageRow
	Position    int64
	// First, Previous and Next are links; empty if there is no such page, or its position is unknown.
	First, Previous, Next string
}

// group is a row of the summary.
type group struct {
	deadletters.Group
	OldestAt, NewestAt time.Time
	Sample             string
	// Query selects the group. It is empty if the header's value is truncated.
	Query template.URL
}

// OtherFields are the parts of the selection that a filter by expression keeps.
func (p queuePage) OtherFields() url.Values {
	other := p.Selection
	other.Expression = ""
	return other.values()
}

// ExportQuery selects the listed messages.
func (p queuePage) ExportQuery() template.URL { return template.URL(p.Selection.values().Encode()) }

// messageRow is a message in a list.
type messageRow struct {
	deadletters.DeadLetter
	DiedAt time.Time
	Text   string
	// Details distinguishes messages with the same text.
	Details string
}

func (s *Server) queue(w http.ResponseWriter, r *http.Request) error {
	cq, err := s.consumerQueue(r)
	if err != nil {
		return err
	}
	namespace, name := cq.Namespace, cq.Name
	queue, has := listing.QueueOf(cq)
	if !has {
		return &problem{http.StatusNotFound, fmt.Sprintf("ConsumerQueue %q has no dead-letter queue.", name)}
	}
	page := queuePage{
		Namespace: namespace, Name: name, Queue: queue.Queue,
		Messages: ptr.Deref(queue.Messages, 0), AsOf: timeOf(queue.AsOf), Trouble: troubleOf(cq),
	}
	if now := cq.Status.Recreation; now != nil && now.Phase != "" {
		page.Recreating = now.Queue
	}
	for _, advisory := range cq.Status.Advisories {
		if advisory.Name == queue.Queue {
			page.Advisories = append(page.Advisories, advisory)
		}
	}
	all, err := s.listJobs(r.Context(), namespace)
	if err != nil && !apierrors.IsForbidden(err) { // permission to list these is optional
		return err
	}
	page.addJobs(all)
	if r.Header.Get("HX-Request") != "" {
		return page.refresh(w)
	}
	code := http.StatusOK
	if err := page.browse(r, s); err != nil {
		page.Refused, code = printable.Lines(s.Explain(err)), codeOf(err)
	}
	return renderAs(w, code, "queue", page)
}

// refresh answers the periodic request of a page that shows a running job. It does not browse, because the job pauses for each browse.
// After the end of the job, it makes the browser load the page again.
func (p *queuePage) refresh(w http.ResponseWriter) error {
	if p.Running == nil {
		w.Header().Set("HX-Refresh", "true")
		return nil
	}
	return render(w, "queue", p)
}

// addJobs adds the jobs of the queue that are running or have ended recently.
func (p *queuePage) addJobs(all []jobs.Job) {
	for _, each := range all {
		if each.ConsumerQueue == p.Name && !each.DryRun && (!each.Ended() || time.Since(each.Completed) < recently) {
			p.Jobs = append(p.Jobs, each)
			if each.UnderWay > 0 {
				p.Running = &each
			}
		}
	}
}

// browse requests the contents of the queue from the dead-letter API.
func (p *queuePage) browse(r *http.Request, s *Server) error {
	asked, err := s.DeadLetters(r.Context(), p.Namespace)
	if err != nil {
		return err
	}
	p.GroupBy = defaultGroup
	if r.URL.Query().Has("groupBy") {
		p.GroupBy = r.URL.Query().Get("groupBy")
	}
	if err := p.summarize(r.Context(), asked); err != nil {
		return err
	}
	if err := p.list(r.Context(), asked, r.URL.Query()); err != nil {
		p.MessagesRefused = printable.Lines(s.Explain(err))
		return nil
	}
	p.addSamples(r.Context(), asked)
	return nil
}

func (p *queuePage) summarize(ctx context.Context, asked *deadletterclient.Client) error {
	query := url.Values{}
	if p.GroupBy != "" {
		query.Set("groupBy", p.GroupBy)
	}
	counted := deadletters.DeadLetterQueue{}
	if err := ask(ctx, asked, p.Name, "", query, &counted); err != nil {
		return err
	}
	if counted.Summary == nil {
		return errors.New("the response of the dead-letter API is not a summary")
	}
	p.Messages, p.Consumers, p.AsOf = ptr.Deref(counted.Messages, 0), ptr.Deref(counted.Consumers, 0), timeOf(counted.AsOf)
	p.Notices, p.Others = deadlettertext.SeenLines(counted.Summary.Seen), counted.Summary.Others
	if counted.Summary.Examined < p.Messages {
		p.Notices = append(p.Notices, fmt.Sprintf("The groups are those of the first %s messages.", thousands(counted.Summary.Examined)))
	}
	for _, each := range counted.Summary.Groups {
		row := group{Group: each, OldestAt: timeOf(each.Oldest), NewestAt: timeOf(each.Newest)}
		if !each.ValueInexact {
			row.Query = template.URL(p.selectionOf(each).values().Encode())
		}
		p.Groups = append(p.Groups, row)
		p.HasValues = p.HasValues || each.Value != nil
	}
	return nil
}

// selectionOf returns the selection of a group.
func (p *queuePage) selectionOf(of deadletters.Group) selection {
	selected := selection{Reasons: []string{of.Reason}, Expression: ofQueue(of.Queue)}
	switch {
	case p.GroupBy == "":
	case of.Value == nil:
		selected.Header, selected.Operator = p.GroupBy, "DoesNotExist"
	default:
		selected.Header, selected.Operator, selected.Value = p.GroupBy, "In", *of.Value
	}
	return selected
}

// list requests a page of messages.
func (p *queuePage) list(ctx context.Context, asked *deadletterclient.Client, given url.Values) error {
	p.Selection = selectionOf(given)
	position, _ := strconv.ParseInt(given.Get("position"), 10, 64) // an invalid number means the beginning
	p.Position = max(0, position)
	query := parameters.Of(p.Selection.spec())
	query.Set("position", strconv.FormatInt(p.Position, 10))
	query.Set("limit", strconv.Itoa(pageLimit))
	query.Set("bodyLimit", strconv.Itoa(snippet))
	answer := deadletters.DeadLetterList{}
	if err := ask(ctx, asked, p.Name, deadletters.SubresourceMessages, query, &answer); err != nil {
		return err
	}
	for _, line := range deadlettertext.SeenLines(answer.Seen) {
		if !slices.Contains(p.Notices, line) {
			p.ListNotices = append(p.ListNotices, line)
		}
	}
	decoded, err := deadlettertext.Decode(answer)
	if err != nil {
		return err
	}
	for _, deadLetter := range decoded {
		p.DeadLetters = append(p.DeadLetters, messageRow{
			deadLetter, timeOf(deadLetter.Origin.DiedAt), deadlettertext.Summary(deadLetter), deadlettertext.Details(deadLetter),
		})
	}
	if answer.NextPosition != nil {
		p.Next = p.pageAt(*answer.NextPosition)
	}
	if p.Position > 0 {
		p.First = p.pageAt(0)
		if p.Selection.IsAll() && len(answer.Skipped) == 0 { // otherwise the length of the page before is unknown
			p.Previous = p.pageAt(max(0, p.Position-pageLimit))
		}
	}
	return nil
}

func (p *queuePage) pageAt(position int64) string {
	query := p.Selection.values()
	query.Set("groupBy", p.GroupBy)
	query.Set("position", strconv.FormatInt(position, 10))
	return "?" + query.Encode() + "#messages"
}

// addSamples adds the text of one message to each group. It requests samples that are not on the page.
func (p *queuePage) addSamples(ctx context.Context, asked *deadletterclient.Client) {
	samples := map[string]string{}
	for _, listed := range p.DeadLetters {
		samples[listed.ID] = listed.Text
	}
	var missing []string
	for _, each := range p.Groups {
		if _, listed := samples[each.SampleID]; !listed {
			missing = append(missing, each.SampleID)
		}
	}
	if len(missing) > 0 {
		p.readSamples(ctx, asked, missing, samples)
	}
	for i := range p.Groups {
		p.Groups[i].Sample = samples[p.Groups[i].SampleID]
	}
}

// readSamples requests one message of each ID. If that fails, groups are shown without samples.
func (p *queuePage) readSamples(ctx context.Context, asked *deadletterclient.Client, ids []string, samples map[string]string) {
	query := url.Values{parameterID: ids, "limit": {strconv.Itoa(len(ids))}, "distinct": {"true"}, "bodyLimit": {strconv.Itoa(snippet)}}
	answer := deadletters.DeadLetterList{}
	if ask(ctx, asked, p.Name, deadletters.SubresourceMessages, query, &answer) != nil {
		return
	}
	decoded, _ := deadlettertext.Decode(answer)
	for _, deadLetter := range decoded {
		samples[deadLetter.ID] = deadlettertext.Summary(deadLetter)
	}
}

// ask requests and decodes a response of the dead-letter API.
func ask(ctx context.Context, asked *deadletterclient.Client, name, subresource string, query url.Values, into any) error {
	answer, err := asked.Read(ctx, name, subresource, query)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("read the response of the dead-letter API: %w", err)
	}
	return nil
}

func timeOf(at *metav1.Time) time.Time { return ptr.Deref(at, metav1.Time{}).Time }
