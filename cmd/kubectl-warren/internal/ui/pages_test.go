package ui

import (
	"context"
	"encoding/json"
	"errors"
	"html"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	deadletters "github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/deadletterclient"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/jobs"
)

// site serves the pages with an in-memory API server and a dead-letter API whose responses a test sets.
type site struct {
	*Server
	t *testing.T
	// summary and messages are the responses of the dead-letter API, and asked are the requests for messages.
	summary  deadletters.DeadLetterQueue
	messages func(url.Values) deadletters.DeadLetterList
	asked    []url.Values
	// exportEnd is the last line of an export without messages.
	exportEnd deadletters.ExportEnd
}

func newSite(t *testing.T, objects ...client.Object) *site {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, summary: deadletters.DeadLetterQueue{Summary: &deadletters.Summary{}}}
	s.messages = func(url.Values) deadletters.DeadLetterList { return deadletters.DeadLetterList{} }
	s.exportEnd.Kind = deadletters.KindExportEnd
	api := httptest.NewServer(http.HandlerFunc(s.answer))
	t.Cleanup(api.Close)
	s.Server = NewServer(Config{
		Kube: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), Namespace: "shop",
		Username: func(context.Context) (string, error) { return "alice", nil },
		DeadLetters: func(ctx context.Context, namespace string) (*deadletterclient.Client, error) {
			return deadletterclient.Connect(ctx, &rest.Config{Host: api.URL}, deadletterclient.Options{Namespace: namespace, Say: func(string) {}})
		},
		Explain: func(err error) string { return err.Error() },
	}, "127.0.0.1:8080")
	return s
}

// answer is the dead-letter API behind the API server.
func (s *site) answer(w http.ResponseWriter, r *http.Request) {
	var body any = metav1.APIResourceList{}
	switch {
	case strings.HasSuffix(r.URL.Path, "/export"):
		s.asked = append(s.asked, r.URL.Query())
		body = s.exportEnd
	case strings.HasSuffix(r.URL.Path, "/messages"):
		s.asked = append(s.asked, r.URL.Query())
		body = s.messages(r.URL.Query())
	case strings.Contains(r.URL.Path, "/deadletterqueues/"):
		body = s.summary
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

// do sends a request with the cookie of the admitted browser, and returns the code and the body.
func (s *site) do(method, path string, form url.Values) (code int, body string) {
	s.t.Helper()
	response := s.respond(s.request(method, path, form))
	return response.Code, response.Body.String()
}

// request returns a request with the cookie of the admitted browser.
func (s *site) request(method, path string, form url.Values) *http.Request {
	path, _, _ = strings.Cut(path, "#")
	r := httptest.NewRequestWithContext(s.t.Context(), method, path, strings.NewReader(form.Encode()))
	r.Host = s.guard.address
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.AddCookie(&http.Cookie{Name: cookieName, Value: s.guard.session})
	return r
}

func (s *site) respond(r *http.Request) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	s.Handler().ServeHTTP(recorder, r)
	return recorder
}

// read returns the text of a page, without markup and with single spaces.
func (s *site) read(page string) string {
	s.t.Helper()
	_, body := s.do(http.MethodGet, page, nil)
	_, body, _ = strings.Cut(body, "<main")
	return strings.Join(strings.Fields(html.UnescapeString(markup.ReplaceAllString("<main"+body, " "))), " ")
}

var markup = regexp.MustCompile(`<[^>]*>`)

func (s *site) expect(page string, want ...string) {
	s.t.Helper()
	text := s.read(page)
	for _, part := range want {
		if !strings.Contains(text, part) {
			s.t.Errorf("%s does not say %q:\n%s", page, part, text)
		}
	}
}

func orders(deadLetters int64) *v1alpha1.ConsumerQueue {
	cq := &v1alpha1.ConsumerQueue{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders"}}
	cq.Status.Messages = &v1alpha1.MessageCounts{DeadLettered: new(deadLetters), AsOf: metav1.NewTime(time.Now().Add(-30 * time.Minute))}
	return cq
}

// The first view refreshes itself every ten seconds.
func TestQueuesAreRefreshed(t *testing.T) {
	t.Parallel()
	s := newSite(t, orders(3))
	for _, page := range []string{path("all"), namespacePath("shop")} {
		_, body := s.do(http.MethodGet, page, nil)
		found := regexp.MustCompile(`hx-get="([^"]*)"`).FindStringSubmatch(body)
		if found == nil {
			t.Fatalf("%s is not refreshed:\n%s", page, body)
		}
		if code, again := s.do(http.MethodGet, found[1], nil); code != http.StatusOK || again != body {
			t.Errorf("%s is refreshed from %s: code %d, body\n%s", page, found[1], code, again)
		}
	}
}

// A job that ran for long stays on the page of its queue for an hour after its end.
func TestJobsThatEndedRecentlyAreListed(t *testing.T) {
	t.Parallel()
	ended := func(name string, began, ended time.Duration) *v1alpha1.Redrive {
		r := &v1alpha1.Redrive{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, CreationTimestamp: metav1.NewTime(time.Now().Add(-began)),
		}}
		r.Spec.ConsumerQueueRef.Name = "orders"
		r.Status.CompletionTime = new(metav1.NewTime(time.Now().Add(-ended)))
		r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Completed"}}
		return r
	}
	s := newSite(t, orders(3), ended("long", 5*time.Hour, time.Minute), ended("old", 5*time.Hour, 2*time.Hour))
	text := s.read(path("namespaces", "shop", "queues", "orders"))
	if !strings.Contains(text, "Redrive long") || strings.Contains(text, "Redrive old") {
		t.Errorf("want the Redrive that ended a minute ago, and not the one of two hours ago:\n%s", text)
	}
}

// The buttons below the list apply to the chosen messages, never to all.
func TestNothingChosen(t *testing.T) {
	t.Parallel()
	s := newSite(t, orders(3))
	for _, of := range []string{"redrive", "purge"} {
		page := path("namespaces", "shop", "queues", "orders", of)
		code, _ := s.do(http.MethodGet, page+"?chosen=", nil)
		if code != http.StatusBadRequest {
			t.Errorf("%s: code %d, want 400", of, code)
		}
		s.expect(page+"?chosen=", "No message is chosen.")
		s.expect(page+"?chosen=&id=abcdefghijklmnop", "1 chosen message")
	}
	s.messages = listOf(t, deadletters.DeadLetter{ID: "abcdefghijklmnop"})
	if _, body := s.do(http.MethodGet, path("namespaces", "shop", "queues", "orders"), nil); !strings.Contains(body, `name="chosen"`) {
		t.Errorf("the form of the list does not say that messages are chosen:\n%s", body)
	}
}

// listOf returns a response with these messages.
func listOf(t *testing.T, all ...deadletters.DeadLetter) func(url.Values) deadletters.DeadLetterList {
	t.Helper()
	list := deadletters.DeadLetterList{}
	for _, each := range all {
		item, err := json.Marshal(each)
		if err != nil {
			t.Fatal(err)
		}
		list.Items = append(list.Items, item)
	}
	return func(url.Values) deadletters.DeadLetterList { return list }
}

// Messages with the same failure are distinguished by ID, time and body.
func TestMessagesThatFailedAlike(t *testing.T) {
	t.Parallel()
	s := newSite(t, orders(2))
	deadLetter := func(id, body string, at time.Time) deadletters.DeadLetter {
		return deadletters.DeadLetter{
			ID: "abcdefghijklmnop", Body: body, Headers: map[string]any{"x-failure-message": "no stock"},
			Properties: map[string]any{"messageId": id}, Origin: deadletters.Origin{DiedAt: new(metav1.NewTime(at))},
		}
	}
	at := time.Date(2026, 11, 24, 4, 0, 0, 0, time.UTC)
	s.messages = listOf(t, deadLetter("m-1", `{"order":1}`, at), deadLetter("m-2", `{"order":2}`, at.Add(time.Second)))
	s.expect(path("namespaces", "shop", "queues", "orders"),
		"2026-11-24T04:00:00Z no stock message-id m-1, {\"order\":1}", "2026-11-24T04:00:01Z no stock message-id m-2, {\"order\":2}")
}

// A job moves or deletes no more messages than confirmed.
func TestJobsAreLimitedToTheConfirmedNumber(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind jobs.Kind
		form url.Values
		code int
		want int64 // zero for no limit
	}{
		"Redrive of all":     {jobs.Redrive, url.Values{"counted": {"402"}}, http.StatusSeeOther, 402},
		"Redrive of a group": {jobs.Redrive, url.Values{"counted": {"60"}, "reason": {"Parked"}}, http.StatusSeeOther, 60},
		"Redrive, uncounted": {jobs.Redrive, url.Values{"counted": {"all"}}, http.StatusSeeOther, 0},
		"Purge":              {jobs.Purge, url.Values{"counted": {"402"}, "typed": {"402"}}, http.StatusSeeOther, 402},
		"group, uncounted":   {jobs.Redrive, url.Values{"counted": {"all"}, "reason": {"Parked"}}, http.StatusBadRequest, 0},
		"Purge, uncounted":   {jobs.Purge, url.Values{"counted": {"all"}, "typed": {"all"}}, http.StatusBadRequest, 0},
		"Purge, no number":   {jobs.Purge, url.Values{"counted": {""}, "typed": {""}}, http.StatusBadRequest, 0},
		"Redrive of nothing": {jobs.Redrive, url.Values{"counted": {"0"}}, http.StatusBadRequest, 0},
		"Redrive, no number": {jobs.Redrive, url.Values{"counted": {""}}, http.StatusBadRequest, 0},
		"Redrive, too large": {jobs.Redrive, url.Values{"counted": {"5"}, "padding": {strings.Repeat("x", maxForm)}}, http.StatusBadRequest, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, orders(500))
			code, body := s.do(http.MethodPost, path("namespaces", "shop", "queues", "orders", string(test.kind)), test.form)
			created, err := s.listJobs(t.Context(), "shop")
			if err != nil {
				t.Fatal(err)
			}
			if code != test.code {
				t.Fatalf("code %d, want %d:\n%s", code, test.code, body)
			}
			if code == http.StatusSeeOther && (len(created) != 1 || created[0].Limit != test.want) || code != http.StatusSeeOther && len(created) != 0 {
				t.Errorf("jobs %+v, want one with limit %d", created, test.want)
			}
		})
	}
}

// The question after the count names no more messages than the limit of the form. A count that was cancelled has no result to confirm.
func TestQuestionAfterTheCount(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason string // why the dry run ended after 402 messages that match
		code   int
		want   string
	}{
		"counted":   {v1alpha1.ReasonDryRun, http.StatusOK, `name="counted" value="5"`},
		"cancelled": {v1alpha1.ReasonCancelled, http.StatusConflict, "The messages cannot be counted: Cancelled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, orders(500))
			s.Kube = interceptor.NewClient(s.Kube, interceptor.Funcs{
				Create: func(ctx context.Context, kube client.WithWatch, object client.Object, options ...client.CreateOption) error {
					status := &object.(*v1alpha1.Redrive).Status
					status.Moved, status.CompletionTime = new(int64(402)), new(metav1.Now())
					status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: test.reason}}
					return kube.Create(ctx, object, options...)
				},
			})
			code, body := s.do(http.MethodPost, path("namespaces", "shop", "queues", "orders", "redrive"), url.Values{"limit": {"5"}})
			if code != test.code || !strings.Contains(body, test.want) {
				t.Errorf("code %d, want %d and %s:\n%s", code, test.code, test.want, body)
			}
		})
	}
}

// A double click, or a form that is sent again, creates one job.
func TestAConfirmationCreatesOneJob(t *testing.T) {
	t.Parallel()
	s := newSite(t, orders(500))
	recorder := httptest.NewRecorder()
	confirmed := confirmPage{request: request{Kind: jobs.Redrive, Namespace: "shop", Name: "orders"}, Count: 5, JobName: "orders-x7k2"}
	if err := render(recorder, "confirm", confirmed); err != nil {
		t.Fatal(err)
	}
	form := url.Values{}
	for _, field := range regexp.MustCompile(`type="hidden" name="(.*?)" value="(.*?)"`).FindAllStringSubmatch(recorder.Body.String(), -1) {
		form.Add(field[1], field[2])
	}
	for range 2 {
		page := path("namespaces", "shop", "queues", "orders", "redrive")
		to := s.respond(s.request(http.MethodPost, page, form)).Header().Get("Location")
		if to != path("namespaces", "shop", "jobs", "redrive", "orders-x7k2") {
			t.Errorf("leads to %q", to)
		}
	}
	if created, err := s.listJobs(t.Context(), "shop"); err != nil || len(created) != 1 {
		t.Errorf("jobs %+v, %v", created, err)
	}
}

// Messages can be moved to each delay tier, and to other ConsumerQueues of the namespace.
func TestDestinationsOfTheForm(t *testing.T) {
	t.Parallel()
	other := orders(0)
	other.Name = "quarantine"
	s := newSite(t, orders(3), other)
	s.expect(path("namespaces", "shop", "queues", "orders", "redrive"), "the main queue the delay tier of 30s the delay tier of 5m "+
		"the delay tier of 30m the exchange that each message was first published to the main queue of quarantine")
}

// The progress of a job with a limit is relative to the limit.
func TestProgressOfAJobWithALimit(t *testing.T) {
	t.Parallel()
	s := newSite(t, orders(1264), moving(15))
	s.expect(path("namespaces", "shop", "jobs", "redrive", "some"), "15 moved of 60", "15 of 60")
}

// moving is a Redrive of orders that moves 60 of 1264 messages.
func moving(moved int64) *v1alpha1.Redrive {
	r := &v1alpha1.Redrive{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "some"}}
	r.Spec.ConsumerQueueRef.Name, r.Spec.MaxMessages = "orders", new(int32(60))
	r.Status.Total, r.Status.Examined, r.Status.Moved = new(int64(1264)), new(2*moved), new(moved)
	r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionUnknown, Reason: "Moving"}}
	return r
}

// While a job takes the messages of a queue, the page of the queue lists the other messages. It refreshes the number of messages under
// way, without another browse, because the job pauses for each browse. It loads itself again when the job has ended. The pages of other
// queues do not show the job.
func TestQueueWhileAJobTakesMessages(t *testing.T) {
	t.Parallel()
	other := orders(0)
	other.Name = "quarantine"
	s := newSite(t, orders(1264), other, moving(15))
	s.summary.Messages = new(int64(1204))
	s.summary.Summary.Groups = []deadletters.Group{{Reason: "Rejected", Queue: "orders", Count: 1204}}
	page := path("namespaces", "shop", "queues", "orders")
	s.expect(namespacePath("shop"), "1,264 dead letters in shop", "45 messages by Redrive some Moving")
	s.expect(page, "orders: 45 dead letters under way", "Redrive some takes messages from this queue. It pauses while they are listed.", "15 of 60",
		"1,204 Rejected")
	_, body := s.do(http.MethodGet, page, nil)
	if !strings.Contains(body, `hx-get="`+page+`"`) || strings.Contains(body, `href="`+page+`/export"`) {
		t.Errorf("want a page that refreshes itself and offers no other job:\n%s", body)
	}
	if text := s.read(path("namespaces", "shop", "queues", "quarantine")); strings.Contains(text, "Redrive some") || !strings.Contains(text, "Export") {
		t.Errorf("want the page of another queue without the job:\n%s", text)
	}
	requests := len(s.asked)
	refresh := func() *httptest.ResponseRecorder {
		r := s.request(http.MethodGet, page, nil)
		r.Header.Set("HX-Request", "true")
		return s.respond(r)
	}
	if response := refresh(); !strings.Contains(response.Body.String(), "45 dead letters under way") || len(s.asked) != requests {
		t.Errorf("a refresh makes %d requests, page:\n%s", len(s.asked)-requests, response.Body)
	}
	ended := moving(60)
	if err := s.Kube.Get(t.Context(), client.ObjectKeyFromObject(ended), ended); err != nil {
		t.Fatal(err)
	}
	ended.Status.CompletionTime = new(metav1.Now())
	if err := s.Kube.Update(t.Context(), ended); err != nil {
		t.Fatal(err)
	}
	if got := refresh().Header().Get("HX-Refresh"); got != "true" {
		t.Errorf("HX-Refresh after the end %q, want true", got)
	}
	if _, body = s.do(http.MethodGet, page, nil); strings.Contains(body, "hx-get") {
		t.Errorf("want a page that does not refresh itself:\n%s", body)
	}
}

// A queue whose count is zero is listed while a job holds its messages.
func TestQueuesWithJobsAreListed(t *testing.T) {
	t.Parallel()
	s := newSite(t, orders(0), moving(15))
	s.expect(namespacePath("shop"), "Dead letters under way in shop", "orders orders.dlq 0", "45 messages by Redrive some Moving")
}

// After a crash, an ended job knows only a range of moved messages.
func TestRangeOfAJob(t *testing.T) {
	t.Parallel()
	ended := moving(31299)
	ended.Status.AtMost, ended.Status.CompletionTime = new(int64(50000)), new(metav1.Now())
	ended.Status.Conditions[0].Status, ended.Status.Conditions[0].Reason = metav1.ConditionTrue, "Completed"
	s := newSite(t, orders(0), ended)
	s.expect(path("namespaces", "shop", "jobs", "redrive", "some"), "31,299 to 50,000 moved Completed")
	s.expect(path("namespaces", "shop", "jobs"), "31,299 to 50,000 moved")
}

// No text of a broker can end a line of an event, or begin an event.
func TestEventsKeepTheirLines(t *testing.T) {
	t.Parallel()
	recorder := httptest.NewRecorder()
	if err := send(recorder, jobs.Job{Message: "refused\revent: end\n\ndata: x", Reason: "Moving", Why: "a\r\nb\rc\n\nd"}); err != nil {
		t.Fatal(err)
	}
	events := strings.Split(strings.TrimSuffix(recorder.Body.String(), "\n\n"), "\n\n")
	if len(events) != 1 {
		t.Errorf("%d events, want 1: %q", len(events), events)
	}
	for line := range strings.Lines(strings.TrimPrefix(events[0], "event: progress\n")) {
		if !strings.HasPrefix(line, "data: ") || strings.Contains(line, "\r") {
			t.Errorf("not a line of data: %q", line)
		}
	}
}

// A group links to its messages, to their export, and to the forms that move or delete them. A truncated value cannot select a group.
func TestGroupsLeadToTheirMessages(t *testing.T) {
	t.Parallel()
	s := newSite(t, orders(2))
	s.summary.Summary.Groups = []deadletters.Group{
		{Reason: "Parked", Queue: "orders", Value: new("a=b"), Count: 1, SampleID: "aaaaaaaaaaaaaaaa"},
		{Reason: "Rejected", Count: 1, SampleID: "bbbbbbbbbbbbbbbb"},
		{Reason: "Parked", Value: new("long"), ValueInexact: true, Count: 1, SampleID: "cccccccccccccccc"},
	}
	page := path("namespaces", "shop", "queues", "orders")
	_, body := s.do(http.MethodGet, page, nil)
	if difference := cmp.Diff(url.Values{
		"id": {"aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb", "cccccccccccccccc"}, "limit": {"3"}, "distinct": {"true"}, "bodyLimit": {"200"},
	}, s.asked[1]); difference != "" {
		t.Errorf("samples (-want +got):\n%s", difference)
	}
	s.asked = nil
	for _, link := range regexp.MustCompile(`href="([^"]*)">List these`).FindAllStringSubmatch(body, -1) {
		s.expect(page+html.UnescapeString(link[1]), "Listed: reason", "Export these")
		s.do(http.MethodGet, page+"/export"+html.UnescapeString(link[1]), nil)
	}
	place := url.Values{"position": {"0"}, "limit": {"20"}, "bodyLimit": {"200"}}
	parked := url.Values{"reason": {"Parked"}, "header": {"x-failure-kind=a=b"}, "expression": {`origin.queue == "orders"`}}
	rejected := url.Values{"reason": {"Rejected"}, "header": {"!x-failure-kind"}, "expression": {`origin.queue == ""`}}
	with := func(a url.Values) url.Values {
		both := maps.Clone(a)
		maps.Copy(both, place)
		return both
	}
	var lists []url.Values
	for _, each := range s.asked {
		if !each.Has("distinct") {
			lists = append(lists, each)
		}
	}
	if difference := cmp.Diff([]url.Values{with(parked), parked, with(rejected), rejected}, lists); difference != "" {
		t.Errorf("asked (-want +got):\n%s", difference)
	}
}

// An export that lacks messages aborts its connection, so the browser reports a failed download. Users purge what they have exported.
func TestAnIncompleteExportIsNoDownload(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]deadletters.ExportEnd{
		"partial":  {Kind: deadletters.KindExportEnd, Seen: deadletters.Seen{Partial: true}},
		"an error": {Kind: deadletters.KindExportEnd, Error: "the broker is gone"},
		"no end":   {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, orders(3))
			s.exportEnd = end
			defer func() {
				if aborted, _ := recover().(error); !errors.Is(aborted, http.ErrAbortHandler) {
					t.Errorf("recovered %v, want %v", aborted, http.ErrAbortHandler)
				}
			}()
			s.do(http.MethodGet, path("namespaces", "shop", "queues", "orders", "export"), nil)
		})
	}
}

// The positions of a filtered list do not show where the page before begins.
func TestLinksToOtherPages(t *testing.T) {
	t.Parallel()
	s := newSite(t, orders(500))
	s.messages = func(url.Values) deadletters.DeadLetterList {
		return deadletters.DeadLetterList{NextPosition: new(int64(140))}
	}
	page := path("namespaces", "shop", "queues", "orders")
	s.expect(page+"?position=120", "First page ← Previous Next →")
	s.expect(page+"?position=120&reason=Parked", "First page Next →")
}

// The page shows above the list which messages the selector could not evaluate.
func TestNoticesOfTheList(t *testing.T) {
	t.Parallel()
	s := newSite(t, orders(2))
	s.messages = func(url.Values) deadletters.DeadLetterList {
		return deadletters.DeadLetterList{Seen: deadletters.Seen{Skipped: map[string]int64{"NotEvaluated": 2}}}
	}
	s.expect(path("namespaces", "shop", "queues", "orders")+"?expression=body.oder==1", "2", "(NotEvaluated)")
}

// A running job can be suspended, resumed and cancelled, and its rate can be changed.
func TestChangesOfAJob(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		form url.Values
		code int
		want v1alpha1.RedriveSpec
	}{
		"suspend":     {url.Values{"do": {"suspend"}}, http.StatusSeeOther, v1alpha1.RedriveSpec{Suspend: true}},
		"resume":      {url.Values{"do": {"resume"}}, http.StatusSeeOther, v1alpha1.RedriveSpec{Suspend: false}},
		"cancel":      {url.Values{"do": {"cancel"}}, http.StatusSeeOther, v1alpha1.RedriveSpec{Cancel: true}},
		"a rate":      {url.Values{"do": {"rate"}, "rate": {"5"}}, http.StatusSeeOther, v1alpha1.RedriveSpec{Rate: new(intstr.FromInt32(5))}},
		"no limit":    {url.Values{"do": {"rate"}, "rate": {"unlimited"}}, http.StatusSeeOther, v1alpha1.RedriveSpec{Rate: new(intstr.FromString("Unlimited"))}},
		"no rate":     {url.Values{"do": {"rate"}, "rate": {""}}, http.StatusBadRequest, v1alpha1.RedriveSpec{}},
		"a wrong one": {url.Values{"do": {"rate"}, "rate": {"fast"}}, http.StatusBadRequest, v1alpha1.RedriveSpec{}},
		"nothing":     {url.Values{}, http.StatusBadRequest, v1alpha1.RedriveSpec{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &v1alpha1.Redrive{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "some"}}
			r.Spec.ConsumerQueueRef.Name = "orders"
			s := newSite(t, orders(3), r)
			page := path("namespaces", "shop", "jobs", "redrive", "some")
			if code, body := s.do(http.MethodPost, page, test.form); code != test.code {
				t.Fatalf("code %d, want %d:\n%s", code, test.code, body)
			}
			got := &v1alpha1.Redrive{}
			if err := s.Kube.Get(t.Context(), client.ObjectKeyFromObject(r), got); err != nil {
				t.Fatal(err)
			}
			test.want.ConsumerQueueRef.Name = "orders"
			if difference := cmp.Diff(test.want, got.Spec); difference != "" {
				t.Errorf("spec (-want +got):\n%s", difference)
			}
		})
	}
}

func TestJobs(t *testing.T) {
	t.Parallel()
	redrive := &v1alpha1.Redrive{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "some"}}
	redrive.Spec.ConsumerQueueRef.Name, redrive.Spec.RequestedBy = "orders", "alice"
	redrive.Status.Total, redrive.Status.Moved = new(int64(10)), new(int64(4))
	purge := &v1alpha1.Purge{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "old"}}
	count := &v1alpha1.Purge{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "counts"}, Spec: v1alpha1.PurgeSpec{DryRun: true}}
	s := newSite(t, orders(3), redrive, purge, count)
	s.expect(namespacePath("shop"), "Jobs")
	s.expect(path("namespaces", "shop", "jobs"), "Redrive some orders 4 moved 10 alice", "Purge old")
	if text := s.read(path("namespaces", "shop", "jobs")); strings.Contains(text, "counts") {
		t.Errorf("a dry run is listed:\n%s", text)
	}
}

// Counts are outdated for a namespace that does not exist, so it has none.
func TestQueuesTellWhenTheyWereCounted(t *testing.T) {
	t.Parallel()
	s := newSite(t, orders(0), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bare"}})
	s.expect(namespacePath("shop"), "No dead letters in shop As of 30m ago or later.", "orders as of 30m ago")
	s.expect(namespacePath("bare"), "There is no ConsumerQueue with a dead-letter queue in this namespace")
	s.expect(namespacePath("nope"), `Namespace "nope" does not exist.`)
	s.summary.AsOf = new(metav1.NewTime(time.Now()))
	s.expect(path("namespaces", "shop", "queues", "orders"), "as of")
}

// The page of a recreation shows how far it is. Its buttons change the recreation that it showed, and no other.
func TestRecreationPage(t *testing.T) {
	t.Parallel()
	recreated := func(status v1alpha1.RecreationStatus, reason, message string) *v1alpha1.ConsumerQueue {
		cq := orders(0)
		cq.Spec.RecreatePolicy, cq.Status.PlanHash, cq.Status.Recreation = v1alpha1.RecreatePolicyMigrate, "sha256:6f1c", &status
		cq.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.ConditionRecreationRequired, Status: metav1.ConditionTrue, Reason: reason, Message: message,
		}}
		return cq
	}
	const abort, approve = v1alpha1.AbortRecreationAnnotation, v1alpha1.ApproveRecreationAnnotation
	waiting := v1alpha1.RecreationStatus{ID: "k3v9q2m7xa", Queue: "orders", Phase: v1alpha1.RecreationWaiting}
	emptying := v1alpha1.RecreationStatus{
		ID: "k3v9q2m7xa", Queue: "orders", Phase: v1alpha1.RecreationEmptying, Hold: "hold", Moved: 600, Remaining: 1400,
	}
	swapped := v1alpha1.RecreationStatus{
		ID: "k3v9q2m7xa", Queue: "orders", Phase: v1alpha1.RecreationGivingBack, DeleteSent: true, ConsumersMayStart: true,
	}
	backsOut := v1alpha1.RecreationStatus{
		ID: "k3v9q2m7xa", Queue: "orders", Phase: v1alpha1.RecreationGivingBack, BackOutReason: v1alpha1.BackOutNotProven,
	}
	over := v1alpha1.RecreationStatus{LastResult: &v1alpha1.RecreationResult{Queue: "orders", Result: v1alpha1.RecreationCompleted}}
	for name, test := range map[string]struct {
		cq    *v1alpha1.ConsumerQueue
		shows []string
		hides string
		form  url.Values
		code  int
		want  map[string]string // annotations afterwards
	}{
		"approve": {
			cq:    recreated(waiting, v1alpha1.ReasonApprovalNeeded, "plan sha256:6f1c waits for an approval"),
			hides: "Consumers",
			shows: []string{"Recreation of queue orders Waiting", "plan sha256:6f1c waits for an approval", "Plan to approve sha256:6f1c", "Abort"},
			form:  url.Values{"do": {"approve"}, "plan": {"sha256:6f1c"}}, code: http.StatusSeeOther, want: map[string]string{approve: "sha256:6f1c"},
		},
		"approve another plan": {
			cq:   recreated(waiting, v1alpha1.ReasonApprovalNeeded, ""),
			form: url.Values{"do": {"approve"}, "plan": {"sha256:old"}}, code: http.StatusConflict,
		},
		"abort": {
			cq:    recreated(emptying, v1alpha1.ReasonRecreating, "the messages are moved"),
			shows: []string{"Recreation of queue orders Emptying", "600 of 2000", "Hold queue hold", "To be moved 1,400", "Consumers have to wait"},
			form:  url.Values{"do": {"abort"}, "id": {"k3v9q2m7xa"}}, code: http.StatusSeeOther, want: map[string]string{abort: "k3v9q2m7xa"},
		},
		"abort an earlier recreation": {
			cq:   recreated(emptying, v1alpha1.ReasonRecreating, ""),
			form: url.Values{"do": {"abort"}, "id": {"earlier"}}, code: http.StatusConflict,
		},
		"abort too late": {
			cq:    recreated(swapped, v1alpha1.ReasonRecreating, ""),
			shows: []string{"Consumers may start", "the recreation can no longer be aborted"},
			form:  url.Values{"do": {"abort"}, "id": {"k3v9q2m7xa"}}, code: http.StatusConflict,
		},
		"abort what is backed out": {
			cq:    recreated(backsOut, v1alpha1.ReasonRecreating, ""),
			shows: []string{"The recreation is being backed out"},
			form:  url.Values{"do": {"abort"}, "id": {"k3v9q2m7xa"}}, code: http.StatusConflict,
		},
		"over": {
			cq:    recreated(over, v1alpha1.ReasonInSync, ""),
			shows: []string{"No queue of orders is being recreated", "Queue orders : Completed"},
			form:  url.Values{"do": {"abort"}}, code: http.StatusConflict,
		},
		"another button": {
			cq: recreated(waiting, v1alpha1.ReasonApprovalNeeded, ""), form: url.Values{"do": {"delete"}}, code: http.StatusBadRequest,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, test.cq)
			page := path("namespaces", "shop", "queues", "orders", "recreation")
			s.expect(page, test.shows...)
			if test.hides != "" && strings.Contains(s.read(page), test.hides) {
				t.Errorf("the page shows %q", test.hides)
			}
			if code, body := s.do(http.MethodPost, page, test.form); code != test.code {
				t.Errorf("code %d, want %d:\n%s", code, test.code, body)
			}
			after := &v1alpha1.ConsumerQueue{}
			if err := s.Kube.Get(t.Context(), client.ObjectKeyFromObject(test.cq), after); err != nil {
				t.Fatal(err)
			}
			if difference := cmp.Diff(test.want, after.Annotations); difference != "" {
				t.Error(difference)
			}
		})
	}
}

func TestQueuePageLinksToItsRecreation(t *testing.T) {
	t.Parallel()
	cq := orders(3)
	cq.Status.Recreation = &v1alpha1.RecreationStatus{ID: "k3v9q2m7xa", Queue: "orders.dlq", Phase: v1alpha1.RecreationWaiting}
	s := newSite(t, cq)
	if _, body := s.do(http.MethodGet, path("namespaces", "shop", "queues", "orders"), nil); !strings.Contains(body,
		`queues/orders/recreation">Recreation of queue orders.dlq</a>`) {
		t.Errorf("the page has no link to the recreation:\n%s", body)
	}
}
