package deadletterapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	messaging "github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/brokers/brokerstest"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/controller/deadletterjob"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/deadline"
)

// world has a handler, an API server and a broker in memory, and a ConsumerQueue named orders that is in sync. Namespace till has a
// ConsumerQueue named bills.
type world struct {
	t       *testing.T
	handler *Handler
	broker  *brokerstest.Broker
	asked   attributes
	denied  error
}

const (
	allQueues = "/apis/deadletters.messaging.warren.dev/v1alpha1/deadletterqueues"
	ofShop    = "/apis/deadletters.messaging.warren.dev/v1alpha1/namespaces/shop/deadletterqueues"
	ofTill    = "/apis/deadletters.messaging.warren.dev/v1alpha1/namespaces/till/deadletterqueues"
)

func newWorld(t *testing.T, spec string, change func(*messaging.ConsumerQueue)) *world {
	t.Helper()
	bc := controllertest.BrokerConnection(messaging.BrokerConnectionSpec{})
	bc.UID = "uid"
	bc.Status.Conditions = []metav1.Condition{{
		Type: messaging.ConditionReady, Status: metav1.ConditionTrue, Reason: messaging.ReasonConnected, ObservedGeneration: bc.Generation,
	}}
	cq := controllertest.InSync(t, spec)
	topo, err := topology.Desired(cq, topologytest.V43)
	if err != nil {
		t.Fatal(err)
	}
	change(cq)
	w := &world{t: t, broker: brokerstest.New(vhost.RabbitMQ43, "/", "uid")}
	if err := w.broker.Apply(t.Context(), topo); err != nil {
		t.Fatal(err)
	}
	api := controllertest.Client(t, []controllertest.AddIndexes{brokers.AddIndexes}, bc, cq, controllertest.Named(t, "till", "bills", `{}`))
	pool := brokers.NewPool(api, logr.Discard(), func(rabbit.Config, logr.Logger, func(snapshot.Notice)) (*brokers.Broker, error) {
		return &brokers.Broker{Probe: w.broker, Observer: w.broker, Changer: w.broker, Mover: w.broker}, nil
	})
	if _, err := pool.Ensure(client.ObjectKeyFromObject(bc), time.Time{}, rabbit.Config{Owner: "uid"}); err != nil {
		t.Fatal(err)
	}
	alone := func(context.Context, *messaging.ConsumerQueue, string, vhost.Version) (bool, bool) {
		return false, true
	}
	w.handler = &Handler{
		reader: api, finder: deadletterjob.NewFinder(api, pool, alone), users: &deadletterjob.Register{},
		answers: newShares(maxAnswers, maxEach), lists: newShares(maxLists, maxEach), browses: newShares(maxBrowses, maxEach), redact: defaults,
		watches: func(namespace string) bool { return namespace != "elsewhere" }, log: logr.Discard(),
		authorize: func(_ context.Context, _ *http.Request, asked attributes) (sender, func(context.Context) error, error) {
			w.asked = asked
			return sender{"alice", "JTI=7"}, func(context.Context) error { return w.denied }, w.denied
		},
	}
	return w
}

// replace recreates the dead-letter queue with other arguments.
func (w *world) replace(arguments vhost.Arguments) {
	w.broker.Change(func(s *snapshot.Snapshot) {
		s.DropQueue("orders.dlq")
		s.PutQueue("orders.dlq", vhost.Queue{Durable: true, Arguments: arguments})
	})
}

func unchanged(*messaging.ConsumerQueue) {}

// get sends a request, and decodes the response.
func (w *world) get(path, accept string, into any) *http.Response {
	w.t.Helper()
	recorder, request := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, http.NoBody)
	request.Header.Set("Accept", accept)
	w.handler.routes().ServeHTTP(recorder, request)
	if err := json.Unmarshal(recorder.Body.Bytes(), into); err != nil {
		w.t.Fatalf("%v: %s", err, recorder.Body)
	}
	return recorder.Result()
}

// refusal is the error in a response.
type refusal struct {
	Code    int32
	Reason  metav1.StatusReason
	Message string
	Retry   string
}

func (w *world) refusal(path string) refusal {
	w.t.Helper()
	status := metav1.Status{}
	response := w.get(path, "", &status)
	topologytest.Equal(w.t, "kind", "Status", status.Kind)
	topologytest.Equal(w.t, "code", response.StatusCode, int(status.Code))
	return refusal{status.Code, status.Reason, status.Message, response.Header.Get("Retry-After")}
}

// Each path requires its own permission.
func TestAttributesForRBAC(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]attributes{
		allQueues:                    {verb: "list"},
		ofShop:                       {verb: "list", namespace: "shop"},
		ofShop + "/orders":           {verb: "get", namespace: "shop", name: "orders"},
		ofShop + "/orders/messages":  {verb: "get", namespace: "shop", name: "orders", subresource: "messages"},
		ofShop + "/orders/export":    {verb: "get", namespace: "shop", name: "orders", subresource: "export"},
		ofShop + "/orders/messages/": {},
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, `{}`, unchanged)
			w.denied = forbidden("alice", want)
			recorder := httptest.NewRecorder()
			w.handler.routes().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, http.NoBody))
			if w.asked != want {
				t.Errorf("asked %+v, want %+v", w.asked, want)
			}
			if code := recorder.Code; code != http.StatusForbidden && code != http.StatusNotFound {
				t.Errorf("the answer is %d", code)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	const messages = ofShop + "/orders/messages"
	for name, test := range map[string]struct {
		spec   string
		cq     func(*messaging.ConsumerQueue)
		change func(*world)
		path   string
		want   refusal
	}{
		"no such ConsumerQueue": {
			path: ofShop + "/bills/messages",
			want: refusal{404, metav1.StatusReasonNotFound, `deadletterqueues.deadletters.messaging.warren.dev "bills" not found`, ""},
		},
		"no such path": {
			path: "/apis/deadletters.messaging.warren.dev/v1/namespaces/shop/deadletterqueues",
			want: refusal{404, metav1.StatusReasonNotFound, "the server could not find the requested resource (get deadletterqueues.deadletters.messaging.warren.dev)", ""},
		},
		"a namespace without access": {
			path: "/apis/deadletters.messaging.warren.dev/v1alpha1/namespaces/elsewhere/deadletterqueues/orders/messages",
			want: refusal{409, metav1.StatusReasonConflict, `Warren does not watch namespace "elsewhere"`, ""},
		},
		"a ConsumerQueue that is being deleted": {
			cq:   func(cq *messaging.ConsumerQueue) { controllertest.BeingDeleted(cq) },
			want: refusal{404, metav1.StatusReasonNotFound, `deadletterqueues.deadletters.messaging.warren.dev "orders" not found`, ""},
		},
		"suspended": {
			cq:   func(cq *messaging.ConsumerQueue) { cq.Spec.Suspend = true },
			want: refusal{409, metav1.StatusReasonConflict, `ConsumerQueue "orders" is suspended`, ""},
		},
		"not compared yet": {
			cq: func(cq *messaging.ConsumerQueue) { cq.Generation++ },
			want: refusal{
				503, metav1.StatusReasonServiceUnavailable, `ConsumerQueue "orders" has not been compared with the broker yet`, "1",
			},
		},
		"no dead-letter queue": {
			spec: `{deadLetter: {policy: Disabled}}`,
			want: refusal{
				409, metav1.StatusReasonConflict,
				`ConsumerQueue "orders" has no dead-letter queue: spec.deadLetter.policy is Disabled`, "",
			},
		},
		"the queue is gone": {
			change: func(w *world) { w.broker.Change(func(s *snapshot.Snapshot) { s.DropQueue("orders.dlq") }) },
			want:   refusal{503, metav1.StatusReasonServiceUnavailable, `queue "orders.dlq" does not exist`, "30"},
		},
		"a delivery limit": {
			spec: `{deadLetter: {queue: {deliveryLimit: 5}}}`,
			want: refusal{
				409, metav1.StatusReasonConflict, `queue "orders.dlq" has a delivery limit: RabbitMQ may delete messages that are browsed. ` +
					"Move all of them with a Redrive, or recreate the queue with deliveryLimit Unlimited", "",
			},
		},
		"a classic queue": {
			change: func(w *world) {
				w.replace(vhost.Arguments{})
			},
			want: refusal{
				409, metav1.StatusReasonConflict,
				`queue "orders.dlq" is a classic queue: only a quorum queue keeps the order of messages that are browsed`, "",
			},
		},
		"a single active consumer": {
			change: func(w *world) {
				w.replace(vhost.Arguments{"x-queue-type": "quorum", "x-delivery-limit": int64(-1), "x-single-active-consumer": true})
			},
			want: refusal{
				409, metav1.StatusReasonConflict, `queue "orders.dlq" has a single active consumer: RabbitMQ delivers messages to ` +
					"that consumer only. Recreate the queue without x-single-active-consumer", "",
			},
		},
		"a wrong parameter": {
			path: messages + "?limit=none",
			want: refusal{400, metav1.StatusReasonBadRequest, `limit: "none" must be a number from 1 to 1000`, ""},
		},
		"groups by a header that no selector can name": {
			path: ofShop + "/orders?groupBy=a%3Db",
			want: refusal{400, metav1.StatusReasonBadRequest, `groupBy: header "a=b" contains =, or begins or ends with !, so no selector can name it. Use another header`, ""},
		},
		"a list by an unknown field": {
			path: ofShop + "?fieldSelector=spec.queue%3Dorders",
			want: refusal{400, metav1.StatusReasonBadRequest, `fieldSelector: "spec.queue" must be metadata.name or metadata.namespace`, ""},
		},
		"a summary with a selector": { // the right to counts is enough for a summary, and an expression can disclose bodies
			path: ofShop + "/orders?expression=true",
			want: refusal{400, metav1.StatusReasonBadRequest, "expression: unknown parameter. The parameters are depth, groupBy", ""},
		},
		"groups by a header that is redacted": {
			path: ofShop + "/orders?groupBy=api-key",
			want: refusal{400, metav1.StatusReasonBadRequest, `groupBy: the values of header "api-key" are redacted`, ""},
		},
		"not known": {
			change: func(w *world) { w.denied = apierrors.NewUnauthorized(howToAuthenticate) },
			want:   refusal{401, metav1.StatusReasonUnauthorized, howToAuthenticate, ""},
		},
		"the API server cannot be asked": {
			change: func(w *world) { w.denied = errors.New("create TokenReview: connection refused") },
			want:   refusal{500, metav1.StatusReasonInternalError, "Internal error occurred: see the log of the manager", ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.spec == "" {
				test.spec = `{}`
			}
			if test.cq == nil {
				test.cq = unchanged
			}
			w := newWorld(t, test.spec, test.cq)
			w.broker.SetDeadLetters("orders.dlq", rejected("1"))
			if test.change != nil {
				test.change(w)
			}
			path := messages
			if test.path != "" {
				path = test.path
			}
			topologytest.Equal(t, "refusal", test.want, w.refusal(path))
		})
	}
}

// Many users may send the token of one ServiceAccount. The ID of the token leads to the user in the audit log of the API server.
func TestRequestsAreLoggedWithTheirSender(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `{}`, unchanged)
	const path = ofShop + "/orders/messages"
	var logged []string
	w.handler.log = funcr.New(func(_, line string) { logged = append(logged, line) }, funcr.Options{})
	w.get(path, "", &v1alpha1.DeadLetterList{})
	w.denied = forbidden("alice", attributes{verb: "get", namespace: "shop", name: "orders", subresource: "messages"})
	w.refusal(path)
	topologytest.Equal(t, "log", []string{
		`"level"=0 "msg"="Browsed dead letters" "consumerQueue"="shop/orders" "user"="alice" "credentialID"="JTI=7" ` +
			`"queue"="orders.dlq" "resource"="deadletterqueues" "subresource"="messages" "examined"=0 "shown"=0`,
		`"level"=0 "msg"="Denied a request for dead letters" "user"="alice" "credentialID"="JTI=7" "verb"="get" ` +
			`"resource"="deadletterqueues" "subresource"="messages" "namespace"="shop" "name"="orders"`,
	}, logged)
}

func TestOnlyGet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `{}`, unchanged)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		recorder := httptest.NewRecorder()
		w.handler.routes().ServeHTTP(recorder, httptest.NewRequest(method, ofShop, http.NoBody))
		topologytest.Equal(t, method, http.StatusMethodNotAllowed, recorder.Code)
	}
}

// kubectl get requests a table. The table of a namespace has no queue of another one.
func TestTable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `{}`, func(cq *messaging.ConsumerQueue) {
		cq.Status.Messages = &messaging.MessageCounts{DeadLettered: new(int64(3)), AsOf: metav1.NewTime(time.Now().Add(-50 * time.Hour))}
	})
	w.broker.SetDeadLetters("orders.dlq", rejected("1"))
	const table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
	ofOrders, ofBills := []any{"orders", "orders.dlq", "3", "2d2h", "0"}, []any{"bills", "bills.dlq", "<unknown>", "<unknown>", "0"}
	for path, want := range map[string][][]any{allQueues: {ofOrders, ofBills}, ofShop: {ofOrders}, ofTill: {ofBills}} {
		got := metav1.Table{}
		w.get(path, table, &got)
		topologytest.Equal(t, path+" kind", "Table", got.Kind)
		var cells [][]any
		for _, row := range got.Rows {
			cells = append(cells, row.Cells)
		}
		topologytest.Equal(t, path+" cells", want, cells)
	}
	one := metav1.Table{}
	w.get(ofShop+"/orders", table, &one)
	topologytest.Equal(t, "cells of one", []any{"orders", "orders.dlq", "1"}, one.Rows[0].Cells[:3])
	got := v1alpha1.DeadLetterQueueList{}
	w.get(ofShop, "application/json", &got)
	topologytest.Equal(t, "kind", v1alpha1.KindDeadLetterQueueList, got.Kind)
}

func TestListsAreSelected(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `{}`, func(cq *messaging.ConsumerQueue) { cq.Labels = map[string]string{"team": "shop"} })
	for query, want := range map[string][]string{
		"":                                    {"orders", "bills"},
		"labelSelector=team%3Dshop":           {"orders"},
		"labelSelector=!team":                 {"bills"},
		"fieldSelector=metadata.name%3Dbills": {"bills"},
		"fieldSelector=metadata.namespace%3Dshop&limit=500": {"orders"},
	} {
		got := v1alpha1.DeadLetterQueueList{}
		w.get(allQueues+"?"+query, "application/json", &got)
		var names []string
		for i := range got.Items {
			names = append(names, got.Items[i].Name)
		}
		topologytest.Equal(t, query, want, names)
	}
}

// An export cannot be resumed, so its permission is checked again if the API server does not answer for a moment. A denial is an answer.
func TestReviewAgain(t *testing.T) {
	t.Parallel()
	down := errors.New("create TokenReview: connection refused")
	denied := forbidden("alice", attributes{verb: "get", namespace: "shop", name: "orders", subresource: "export"})
	for name, test := range map[string]struct {
		answers []error
		asked   int
		want    error
	}{
		"it answers":                         {[]error{nil}, 1, nil},
		"it does not answer for two seconds": {[]error{down, down, nil}, 3, nil},
		"it does not answer for longer":      {[]error{down, down, down, nil}, 3, down},
		"it denies":                          {[]error{denied, nil}, 1, denied},
		"it denies when it is back":          {[]error{down, denied, nil}, 2, denied},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				again := func(context.Context) error { asked++; return test.answers[asked-1] }
				err := request{again: again}.reviewAgain(t.Context())
				topologytest.Equal(t, "is the wanted error", true, errors.Is(err, test.want))
				topologytest.Equal(t, "asked", test.asked, asked)
			})
		})
	}
}

// A manager that stops ends its browses early.
func TestABrowseOfAManagerThatStopsIsNoAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `{}`, unchanged)
	w.broker.SetDeadLetters("orders.dlq", rejected("1"), rejected("2"))
	ctx, stop := context.WithCancel(t.Context())
	authorize := w.handler.authorize
	w.handler.authorize = func(ctx context.Context, r *http.Request, asked attributes) (sender, func(context.Context) error, error) {
		user, _, err := authorize(ctx, r, asked)
		return user, func(context.Context) error { stop(); return nil }, err // the last check before the browse
	}
	for _, path := range []string{ofShop + "/orders", ofShop + "/orders/messages"} {
		recorder := httptest.NewRecorder()
		w.handler.routes().ServeHTTP(recorder, httptest.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody))
		topologytest.Equal(t, path, http.StatusServiceUnavailable, recorder.Code)
	}
}

// kubectl and the API server first request discovery.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `{}`, unchanged)
	groups, group, resources := metav1.APIGroupList{}, metav1.APIGroup{}, metav1.APIResourceList{}
	w.get("/apis", "", &groups)
	w.get("/apis/deadletters.messaging.warren.dev", "", &group)
	w.get("/apis/deadletters.messaging.warren.dev/v1alpha1", "", &resources)
	topologytest.Equal(t, "groups", []metav1.APIGroup{{Name: group.Name, Versions: group.Versions, PreferredVersion: group.PreferredVersion}},
		[]metav1.APIGroup{{Name: groups.Groups[0].Name, Versions: groups.Groups[0].Versions, PreferredVersion: groups.Groups[0].PreferredVersion}})
	topologytest.Equal(t, "version", v1alpha1.GroupVersion.String(), resources.GroupVersion)
	topologytest.Equal(t, "resources", 3, len(resources.APIResources))
}

func TestNoCopyIsCached(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `{}`, unchanged)
	w.broker.SetDeadLetters("orders.dlq", rejected("1"))
	for _, path := range []string{"/orders", "/orders/messages", "/orders/export"} {
		recorder := httptest.NewRecorder()
		w.handler.routes().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, ofShop+path, http.NoBody))
		header := recorder.Result().Header
		topologytest.Equal(t, path+" code", http.StatusOK, recorder.Code)
		topologytest.Equal(t, path+" cache", "no-store", header.Get("Cache-Control"))
		topologytest.Equal(t, path+" sniff", "nosniff", header.Get("X-Content-Type-Options"))
	}
}

// The server does not wait for a body that never comes.
func TestARequestWithABodyIsRefused(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(newWorld(t, `{}`, unchanged).handler.routes())
	t.Cleanup(server.Close)
	connection, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	_, err = connection.Write([]byte("GET /healthz HTTP/1.1\r\nHost: warren\r\nContent-Length: 100\r\n\r\n"))
	if err := errors.Join(err, connection.SetReadDeadline(time.Now().Add(deadline.For(10*time.Second)))); err != nil {
		t.Fatal(err)
	}
	response, err := io.ReadAll(connection)
	if err != nil || !strings.HasPrefix(string(response), "HTTP/1.1 400 ") {
		t.Errorf("%v: %s", err, response)
	}
}
