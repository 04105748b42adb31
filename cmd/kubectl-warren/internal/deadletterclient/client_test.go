package deadletterclient

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
)

const (
	group   = "/apis/deadletters.messaging.warren.dev/v1alpha1"
	token   = "/api/v1/namespaces/shop/serviceaccounts/warren-dead-letters/token" //nolint:gosec // a path
	proxied = "/api/v1/namespaces/warren-system/services/https:warren-dead-letters:https/proxy"
	orders  = group + "/namespaces/shop/deadletterqueues/orders"
)

// apiServer simulates an API server, and records requests.
type apiServer struct {
	*httptest.Server

	// served is true if the API server serves the dead-letter API itself.
	served bool
	// tokenError is the error that requests for tokens return; nil if they succeed.
	tokenError *apierrors.StatusError
	// answers are the responses of the dead-letter API, in order; the last one repeats.
	answers []http.HandlerFunc
	asked   []string
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == group && s.served:
		writeJSON(w, http.StatusOK, metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}})
	case r.URL.Path == group:
		http.NotFound(w, r)
	case r.URL.Path == token && s.tokenError != nil:
		failure(s.tokenError)(w, r)
	case r.URL.Path == token:
		s.createToken(w, r)
	default:
		s.asked = append(s.asked, r.URL.RequestURI()+" "+r.Header.Get(v1alpha1.TokenHeader))
		answer := s.answers[0]
		if len(s.answers) > 1 {
			s.answers = s.answers[1:]
		}
		answer(w, r)
	}
}

func (s *apiServer) createToken(w http.ResponseWriter, r *http.Request) {
	request := &authenticationv1.TokenRequest{}
	content, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(content, request)
	}
	if err != nil || !cmp.Equal(request.Spec.Audiences, []string{"warren"}) || *request.Spec.ExpirationSeconds != 600 {
		failure(apierrors.NewBadRequest("another token was expected"))(w, r)
		return
	}
	request.TypeMeta = metav1.TypeMeta{Kind: "TokenRequest", APIVersion: "authentication.k8s.io/v1"}
	request.Status.Token = "t-1"
	writeJSON(w, http.StatusCreated, request)
}

func writeJSON(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

func failure(err *apierrors.StatusError) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		status := err.ErrStatus
		status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		writeJSON(w, int(status.Code), status)
	}
}

func plainText(code int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, text, code) }
}

func success(w http.ResponseWriter, _ *http.Request) {
	_, _ = w.Write([]byte(`{"kind":"DeadLetterQueue"}`))
}

// start starts the server, and returns a configuration for it.
func (s *apiServer) start(t *testing.T) *rest.Config {
	t.Helper()
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return &rest.Config{Host: s.URL, QPS: -1}
}

// client returns a Client that records its waits and messages instead of waiting.
func client(t *testing.T, s *apiServer) (*Client, *[]string, error) {
	t.Helper()
	said := &[]string{}
	c, err := Connect(t.Context(), s.start(t), Options{
		Namespace: "shop", ServiceAccount: "warren-dead-letters", WarrenNamespace: "warren-system", Service: "warren-dead-letters",
		Say: func(sentence string) { *said = append(*said, sentence) },
	})
	if c != nil {
		c.wait = func(_ context.Context, delay time.Duration) error {
			*said = append(*said, delay.String())
			return nil
		}
	}
	return c, said, err
}

func TestRequestsGoToTheAPIServerOrItsProxy(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		served bool
		want   []string
	}{
		"the API server, where it serves the API": {true, []string{orders + "/messages?id=a&id=b "}},
		"the proxy, with a token, elsewhere":      {false, []string{proxied + orders + "/messages?id=a&id=b t-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := &apiServer{served: test.served, answers: []http.HandlerFunc{success}}
			c, said, err := client(t, server)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := c.Get(t.Context(), "orders", v1alpha1.SubresourceMessages, url.Values{"id": {"a", "b"}})
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(answer)
			if err != nil || string(content) != `{"kind":"DeadLetterQueue"}` {
				t.Errorf("answer %s, %v", content, err)
			}
			if difference := cmp.Diff(test.want, server.asked); difference != "" || len(*said) > 0 {
				t.Errorf("requests (-want +got):\n%s; said %v", difference, *said)
			}
		})
	}
}

func TestNoToken(t *testing.T) {
	t.Parallel()
	accounts := schema.GroupResource{Resource: "serviceaccounts"}
	for name, test := range map[string]struct {
		answer *apierrors.StatusError
		want   string
	}{
		"no ServiceAccount": {apierrors.NewNotFound(accounts, "warren-dead-letters"), `serviceaccounts "warren-dead-letters" not found
The dead-letter API needs a ServiceAccount in the namespace. A user with the role admin in the namespace creates it, once:
  kubectl --namespace shop create serviceaccount warren-dead-letters
  kubectl --namespace shop create rolebinding warren-dead-letters-deadletterqueue-editor-role --clusterrole=warren-deadletterqueue-editor-role --serviceaccount=shop:warren-dead-letters
To show only counts, bind the role warren-deadletterqueue-viewer-role instead. To use another ServiceAccount, add --service-account. If the Helm release is not called warren, add --warren-service.
Without a ServiceAccount, you can still count messages and move them back:
  kubectl warren dlq redrive NAME --namespace shop --dry-run`},
		"no right": {apierrors.NewForbidden(accounts, "warren-dead-letters", errors.New("no")), `serviceaccounts "warren-dead-letters" is forbidden: no
The dead-letter API accepts only tokens of a ServiceAccount of the namespace, and you may not create tokens of "warren-dead-letters" in namespace "shop". Ask a user with the role admin in the namespace to permit it, for this ServiceAccount alone:
  kubectl --namespace shop create role warren-dead-letters-token --verb=create --resource=serviceaccounts/token --resource-name=warren-dead-letters
  kubectl --namespace shop create rolebinding warren-dead-letters-token --role=warren-dead-letters-token --user=YOU`},
		"an unknown user": {apierrors.NewUnauthorized("Unauthorized"), "Unauthorized"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := client(t, &apiServer{tokenError: test.answer})
			wantError(t, err, test.want)
		})
	}
}

func TestRolesOfAnotherRelease(t *testing.T) {
	t.Parallel()
	c := &Client{options: Options{Namespace: "shop", ServiceAccount: "reader", Service: "second-warren-dead-letters"}}
	want := "  kubectl --namespace shop create rolebinding reader-deadletterqueue-viewer-role " +
		"--clusterrole=second-warren-deadletterqueue-viewer-role --serviceaccount=shop:reader"
	if got := c.bindCommand(role[""]); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if difference := cmp.Diff(want, got); difference != "" {
		t.Errorf("error (-want +got):\n%s", difference)
	}
}

func later(seconds int32) *apierrors.StatusError {
	err := apierrors.NewServiceUnavailable("the broker is not ready")
	err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: seconds}
	return err
}

// The errors for responses of the manager, and of the API server in front of it.
func TestRefused(t *testing.T) {
	t.Parallel()
	services := schema.GroupResource{Resource: "services"}
	queues := schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: v1alpha1.Resource}
	forbidden := failure(apierrors.NewForbidden(queues, "orders", errors.New("no")))
	const nobody = "\n" + `Service "warren-dead-letters" in namespace "warren-system" does not answer. Check --warren-namespace and --warren-service. Otherwise the manager is not running, is older than the dead-letter API, or does not serve it. To find the pod that serves it:
  kubectl --namespace warren-system get pods --selector messaging.warren.dev/active=true`
	const isForbidden = `deadletterqueues.deadletters.messaging.warren.dev "orders" is forbidden: no` + "\n"
	const grant = isForbidden + "Ask a user with the role admin in the namespace to run:\n  kubectl --namespace shop create rolebinding warren-dead-letters-"
	for name, test := range map[string]struct {
		answer      http.HandlerFunc
		subresource string
		served      bool
		want        string
	}{
		"no such ConsumerQueue": {answer: failure(apierrors.NewNotFound(queues, "orders")), want: `deadletterqueues.deadletters.messaging.warren.dev "orders" not found
` + "`kubectl warren dlq ls --namespace shop` lists the dead-letter queues of the namespace."},
		"no Service": {answer: failure(apierrors.NewNotFound(services, "warren-dead-letters")), want: `services "warren-dead-letters" not found` + nobody},
		"no right on the proxy": {answer: failure(apierrors.NewForbidden(services, "https:warren-dead-letters:https", errors.New("no"))), want: `services "https:warren-dead-letters:https" is forbidden: no
The Role warren-dead-letters-proxy-role allows every user to use the proxy of this Service. Check that the Role exists in namespace "warren-system", and check --warren-namespace and --warren-service.`},
		"no endpoints": {
			answer: failure(apierrors.NewNotFound(schema.GroupResource{Resource: "endpoints"}, "warren-dead-letters")),
			want:   `endpoints "warren-dead-letters" not found` + nobody,
		},
		"no manager": {
			answer: failure(apierrors.NewServiceUnavailable(`no endpoints available for service "warren-dead-letters"`)),
			want:   `no endpoints available for service "warren-dead-letters"` + nobody,
		},
		"a manager that cannot be reached": {
			answer: plainText(http.StatusServiceUnavailable, "error trying to reach service: dial tcp 10.0.0.7:8444: connect: connection refused"),
			want:   "error trying to reach service: dial tcp 10.0.0.7:8444: connect: connection refused" + nobody,
		},
		"a manager that fails": {answer: plainText(http.StatusBadGateway, "bad gateway"), want: "bad gateway"},
		"no right to count":    {answer: forbidden, want: grant + "deadletterqueue-viewer-role --clusterrole=warren-deadletterqueue-viewer-role --serviceaccount=shop:warren-dead-letters"},
		"no right to look":     {answer: forbidden, subresource: v1alpha1.SubresourceMessages, want: grant + "deadletterqueue-editor-role --clusterrole=warren-deadletterqueue-editor-role --serviceaccount=shop:warren-dead-letters"},
		"no right to export":   {answer: forbidden, subresource: v1alpha1.SubresourceExport, want: grant + "deadletterqueue-admin-role --clusterrole=warren-deadletterqueue-admin-role --serviceaccount=shop:warren-dead-letters"},
		"no right at the API":  {answer: forbidden, served: true, want: isForbidden + `Ask for the role in namespace "shop": view is enough to count, edit to read messages, admin to export them.`},
		"a job at the queue": {
			answer: failure(apierrors.NewTooManyRequests(`Redrive "a" takes messages from queue "q". Suspend the Redrive, or try again when it has ended`, 30)),
			want:   `Redrive "a" takes messages from queue "q". Suspend the Redrive, or try again when it has ended`,
		},
		"a token that is refused":   {answer: failure(apierrors.NewUnauthorized("give a token for the audience warren")), want: "give a token for the audience warren"},
		"a parameter":               {answer: failure(apierrors.NewBadRequest(`limit: "0" must be a number from 1 to 1000`)), want: `limit: "0" must be a number from 1 to 1000`},
		"a queue with a limit":      {answer: failure(apierrors.NewConflict(queues, "orders", errors.New("the queue has a delivery limit"))), want: `Operation cannot be fulfilled on deadletterqueues.deadletters.messaging.warren.dev "orders": the queue has a delivery limit`},
		"a broker that is not well": {answer: failure(later(30)), want: "the broker is not ready\nTry again in 30 s."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := &apiServer{served: test.served, answers: []http.HandlerFunc{test.answer}}
			c, said, err := client(t, server)
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.Get(t.Context(), "orders", test.subresource, nil)
			wantError(t, err, test.want)
			if len(server.asked) != 1 || len(*said) != 0 {
				t.Errorf("asked %v, said %v, want one request without a word", server.asked, *said)
			}
		})
	}
}

func TestTriesAgain(t *testing.T) {
	t.Parallel()
	busy := failure(apierrors.NewTooManyRequests("another user browses the queue; try again", 1))
	for name, test := range map[string]struct {
		answers []http.HandlerFunc
		want    string
		said    []string
		asked   int
	}{
		"until its turn comes": {
			answers: []http.HandlerFunc{busy, failure(later(2)), success},
			said:    []string{"another user browses the queue; try again", "1s", "2s"}, asked: 3,
		},
		"only for a limited time": {
			answers: []http.HandlerFunc{busy}, want: "another user browses the queue; try again\nTried 10 times.",
			said: append([]string{"another user browses the queue; try again"}, strings.Fields(strings.Repeat("1s ", 9))...), asked: 10,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := &apiServer{answers: test.answers}
			c, said, err := client(t, server)
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.Get(t.Context(), "orders", "", nil)
			wantError(t, err, test.want)
			if difference := cmp.Diff(test.said, *said); difference != "" || len(server.asked) != test.asked {
				t.Errorf("asked %d times, want %d; said (-want +got):\n%s", len(server.asked), test.asked, difference)
			}
		})
	}
}

// Ctrl-C ends the wait.
func TestStoppedWhileItWaits(t *testing.T) {
	t.Parallel()
	server := &apiServer{answers: []http.HandlerFunc{failure(apierrors.NewTooManyRequests("try again", 5))}}
	c, _, err := client(t, server)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c.wait, c.options.Say = wait, func(string) { cancel() }
	if _, err := c.Get(ctx, "orders", "", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}

// The manager disconnects a client that is too slow.
func TestAnAnswerBreaksOff(t *testing.T) {
	t.Parallel()
	server := &apiServer{answers: []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte("{"))
	}}}
	c, _, err := client(t, server)
	if err != nil {
		t.Fatal(err)
	}
	for subresource, remedy := range map[string]string{
		"": "Try again.", v1alpha1.SubresourceMessages: "Try again, or request less with --limit and --body-limit.",
	} {
		_, err := c.Read(t.Context(), "orders", subresource, nil)
		if want := "the response was truncated: unexpected EOF\n" + remedy; err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// A name cannot change the path.
func TestNames(t *testing.T) {
	t.Parallel()
	server := &apiServer{answers: []http.HandlerFunc{success}}
	c, _, err := client(t, server)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"..", "a/b", "a%2fb"} {
		if _, err := c.Get(t.Context(), name, "", nil); err == nil || len(server.asked) > 0 {
			t.Errorf("name %q: no error, or asked %v", name, server.asked)
		}
	}
}
