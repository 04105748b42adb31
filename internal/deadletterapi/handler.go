package deadletterapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/deadletterjob"
	"github.com/warren-mq/warren/internal/deadletter"
	"github.com/warren-mq/warren/internal/deadletterapi/listing"
)

const (
	// maxPageBytes is the limit of messages in a response, in bytes.
	maxPageBytes = 8 << 20
	// reviewTime is the limit for authentication and authorization by the API server.
	reviewTime = 10 * time.Second
	// writeTime is the limit for a client to receive the next part of a response, answerTime for a whole page.
	writeTime  = 10 * time.Second
	answerTime = 2 * time.Minute
)

// Handler handles requests.
type Handler struct {
	reader client.Reader
	finder *deadletterjob.Finder
	// authorize returns the sender of a request, or the error to respond with; see gate.
	authorize func(context.Context, *http.Request, attributes) (by sender, again func(context.Context) error, err error)
	// answers, lists and browses limit concurrent responses with messages, lists of queues, and browses.
	answers, lists, browses *shares
	// users are the users of dead-letter queues in this process.
	users *deadletterjob.Register
	// redact matches the names of headers whose values are hidden.
	redact *regexp.Regexp
	// watches reports whether Warren works in a namespace.
	watches func(namespace string) bool
	log     logr.Logger
}

// request is an authorized request.
type request struct {
	*http.Request
	attributes
	// at is when the request arrived: the time for the age of messages, also in the last chunk of an export.
	at     time.Time
	sender sender
	// again checks the permission of the sender again.
	again func(context.Context) error
	// end is called when the response is written.
	end func()
}

// answer returns the JSON of a response, or nil if it has written the response itself.
type answer func(w http.ResponseWriter, r request) (any, error)

// routes returns the paths of the API.
func (h *Handler) routes() http.Handler {
	base := "GET /apis/" + v1alpha1.GroupVersion.String()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	addDiscovery(mux)
	mux.Handle(base+"/deadletterqueues", h.serve("list", "", h.queues))
	mux.Handle(base+"/namespaces/{namespace}/deadletterqueues", h.serve("list", "", h.queues))
	named := base + "/namespaces/{namespace}/deadletterqueues/{name}"
	mux.Handle(named, h.serve("get", "", h.summary))
	mux.Handle(named+"/messages", h.serve("get", v1alpha1.SubresourceMessages, h.messages))
	mux.Handle(named+"/export", h.serve("get", v1alpha1.SubresourceExport, h.export))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			writeError(w, apierrors.NewMethodNotSupported(resource, r.Method))
			return
		}
		writeError(w, apierrors.NewGenericServerResponse(http.StatusNotFound, r.Method, resource, "", "no such path", 0, false))
	})
	return withoutBody(mux)
}

// withoutBody refuses requests with a body. Otherwise the server would wait for the body before it closes the connection or reads the next
// request. Meanwhile the connection would occupy a slot of an address that many users can share.
func withoutBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			next.ServeHTTP(w, r)
			return
		}
		_ = http.NewResponseController(w).SetReadDeadline(time.Now())
		w.Header().Set("Connection", "close")
		writeError(w, apierrors.NewBadRequest("requests of this API have no body"))
	})
}

// serve authorizes a request, and writes its response.
func (h *Handler) serve(verb, subresource string, answers answer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		about := attributes{verb, r.PathValue("namespace"), r.PathValue("name"), subresource}
		asked := request{Request: r, attributes: about, at: time.Now(), end: func() {}}
		defer func() { asked.end() }()
		result, err := h.answer(w, &asked, answers)
		switch {
		case err != nil:
			writeError(w, h.failure(asked, err))
		case result != nil:
			writeJSON(w, http.StatusOK, result)
		}
	})
}

func (h *Handler) answer(w http.ResponseWriter, r *request, answers answer) (any, error) {
	var err error
	reviewing, cancel := context.WithTimeout(r.Context(), reviewTime)
	r.sender, r.again, err = h.authorize(reviewing, r.Request, r.attributes) // the sender is known even if the request is denied
	cancel()
	if err != nil {
		return nil, err
	}
	if r.namespace != "" && !h.watches(r.namespace) {
		return nil, conflict("Warren does not watch namespace %q", r.namespace)
	}
	slots, verb := h.lists, "list queues"
	if r.name != "" { // the response contains messages
		slots, verb = h.answers, "wait for answers"
	}
	end, err := takeSlot(slots, r.namespace, verb)
	if err != nil {
		return nil, err
	}
	r.end = end
	return answers(w, *r)
}

// reviewTries is how often the permission for an export is checked until the API server answers, with pauses of reviewPause.
const (
	reviewTries = 3
	reviewPause = time.Second
)

// reviewAgain checks the permission of a request that may have begun minutes ago. An export cannot be resumed, so reviewAgain retries while
// the API server restarts.
func (r request) reviewAgain(ctx context.Context) (err error) {
	for range reviewTries {
		reviewing, cancel := context.WithTimeout(ctx, reviewTime)
		err = r.again(reviewing)
		cancel()
		if err == nil || apierrors.IsForbidden(err) {
			return err
		}
		if !sleep(ctx, reviewPause) {
			return err
		}
	}
	return err
}

// sleep waits, and reports whether ctx has not ended meanwhile.
func sleep(ctx context.Context, pause time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}

// failure returns the error to respond with. It logs internal errors, whose text it hides, and denials.
func (h *Handler) failure(r request, err error) error {
	if apierrors.IsForbidden(err) {
		h.log.WithValues(r.sender.logged()...).Info("Denied a request for dead letters", "verb", r.verb, "resource", v1alpha1.Resource,
			"subresource", r.subresource, "namespace", r.namespace, "name", r.name)
	}
	if _, isStatus := errors.AsType[*apierrors.StatusError](err); !isStatus {
		h.log.Error(err, "Cannot serve a request for dead letters", "path", r.URL.Path, "user", r.sender.name)
		return apierrors.NewInternalError(errors.New("see the log of the manager"))
	}
	return err
}

func writeError(w http.ResponseWriter, err error) {
	failure, _ := errors.AsType[*apierrors.StatusError](err)
	status := failure.ErrStatus
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	writeJSON(w, int(status.Code), status)
}

// writeJSON writes a response in parts, while the client receives them in time.
func writeJSON(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	setSecurityHeaders(w)
	w.WriteHeader(code)
	// The response consists of texts, numbers and times, so an error means that the client is gone.
	_ = json.NewEncoder(partWriter{w, time.Now().Add(answerTime)}).Encode(body)
}

// partWriter writes a response in parts. The client must receive each part within writeTime.
type partWriter struct {
	w     http.ResponseWriter
	until time.Time
}

func (p partWriter) Write(text []byte) (written int, err error) {
	control := http.NewResponseController(p.w)
	for part := range slices.Chunk(text, partSize) {
		deadline := time.Now().Add(writeTime)
		if deadline.After(p.until) {
			deadline = p.until
		}
		_ = control.SetWriteDeadline(deadline)
		n, err := p.w.Write(part)
		if written += n; err != nil {
			return written, err
		}
	}
	return written, nil
}

func setSecurityHeaders(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
}

func (h *Handler) queues(_ http.ResponseWriter, r request) (any, error) {
	selects, err := queueSelector(r.URL.Query())
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	list, err := h.list(r.Context(), r.namespace)
	if err != nil {
		return nil, err
	}
	list.Items = slices.DeleteFunc(list.Items, func(queue v1alpha1.DeadLetterQueue) bool { return !selects(queue) })
	if wantsTable(r.Header.Get("Accept")) {
		return tableOf(list.Items, time.Now()), nil
	}
	return list, nil
}

// target finds the queue of a request, and waits for its turn.
func (h *Handler) target(ctx context.Context, r request, complete bool) (target, func(), error) {
	found, blocker, err := h.finder.Find(ctx, client.ObjectKey{Namespace: r.namespace, Name: r.name})
	if err != nil {
		return target{}, nil, err
	}
	var details deadletterjob.Details
	if blocker == nil {
		details, blocker = h.finder.Inspect(ctx, found)
	}
	if blocker != nil {
		return target{}, nil, errorOf(*blocker, r.name)
	}
	if err := check(found, details); err != nil {
		return target{}, nil, err
	}
	entry, err := h.takeTurn(ctx, found, complete)
	if err != nil {
		return target{}, nil, err
	}
	end, err := takeSlot(h.browses, r.namespace, "browse queues")
	if err != nil {
		entry.Leave()
		return target{}, nil, err
	}
	return target{found, details, entry}, func() { end(); entry.Leave() }, nil
}

// browse checks the permission again, and shows messages of the ConsumerQueue to visit. It logs the user and the number of messages.
func (h *Handler) browse(
	ctx context.Context, r request, q query, visit func(position int, deadLetter deadletter.Message) bool,
) (target, browsed, error) {
	at, end, err := h.target(ctx, r, q.complete)
	if err != nil {
		return at, browsed{}, err
	}
	defer end()
	if err := r.reviewAgain(ctx); err != nil {
		return at, browsed{}, err
	}
	rules := deadletter.Rules{Source: at.Source, Selector: q.selector, MaxRedrives: -1}
	left := map[string]int64{}
	result := browsed{}
	result.turns, result.lastRemoval = at.entry.Removals()
	log := h.log.WithValues("consumerQueue", r.namespace+"/"+r.name)
	browsed, seen, err := at.browse(ctx, log, q.maxMessages(at.Source.Shared), func(position int, deadLetter deadletter.Message) bool {
		if position < q.position || !shows(rules, deadLetter, r.at, left) {
			return true
		}
		result.shown++
		return visit(position, deadLetter)
	})
	result.ready, result.consumers, result.examined, result.Seen = browsed.Ready, browsed.Consumers, browsed.Examined, seen
	result.Skipped, result.EvaluationError = left, q.selector.EvaluationError()
	log.WithValues(r.sender.logged()...).Info("Browsed dead letters", "queue", at.Names.Queue, "resource", v1alpha1.Resource,
		"subresource", r.subresource, "examined", result.examined, "shown", result.shown)
	return at, result, err
}

// browsed is the result of a browse.
type browsed struct {
	v1alpha1.Seen
	ready, consumers int
	examined, shown  int
	// turns and lastRemoval are the results of deadletterjob.Entry.Removals.
	turns, lastRemoval int
}

// summary counts the messages of a queue by groups.
func (h *Handler) summary(_ http.ResponseWriter, r request) (any, error) {
	q, err := parse(r.URL.Query(), summaryParameters)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if q.groupBy != "" && h.redact.MatchString(q.groupBy) {
		return nil, apierrors.NewBadRequest("groupBy: the values of header \"" + q.groupBy + "\" are redacted")
	}
	ctx, cancel := context.WithTimeout(r.Context(), browseTime)
	defer cancel()
	counted := newCounter(q.groupBy)
	began := time.Now()
	at, seen, err := h.browse(ctx, r, q, func(_ int, deadLetter deadletter.Message) bool {
		counted.add(deadLetter)
		return true
	})
	if err != nil {
		return nil, err
	}
	queue, _ := listing.QueueOf(at.ConsumerQueue)
	queue.Messages, queue.AsOf = new(int64(seen.ready)), new(metav1.NewTime(began.UTC()))
	queue.Consumers = new(int64(seen.consumers))
	queue.Summary = &v1alpha1.Summary{Examined: int64(seen.examined), Seen: seen.Seen, GroupBy: q.groupBy}
	queue.Summary.Groups, queue.Summary.Others = counted.largest()
	if wantsTable(r.Header.Get("Accept")) {
		return tableOf([]v1alpha1.DeadLetterQueue{queue}, time.Now()), nil
	}
	return queue, nil
}

func (h *Handler) messages(_ http.ResponseWriter, r request) (any, error) {
	q, err := parse(r.URL.Query(), messageParameters)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	ctx, cancel := context.WithTimeout(r.Context(), browseTime)
	defer cancel()
	q.paged, q.depth = true, maxDepth
	page := page{query: q, redact: h.redact, room: maxPageBytes}
	at, seen, err := h.browse(ctx, r, q, page.add)
	if err == nil {
		err = page.err
	}
	if err != nil {
		return nil, err
	}
	return page.list(at.Names.Queue, seen), nil
}
