package metricsaccess

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// apiServer simulates an API server that knows some users by their tokens; test/deployment uses a real one. It counts reviews,
// and can fail.
type apiServer struct {
	users  map[string]authenticationv1.UserInfo
	reads  string // the user that may get /metrics
	failed string // the resource whose requests fail
	asked  []string
	access authorizationv1.SubjectAccessReviewSpec
}

func (s *apiServer) RoundTrip(r *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	resource := r.URL.Path[len("/apis/"):]
	s.asked = append(s.asked, resource)
	recorder.Header().Set("Content-Type", "application/json")
	if resource == s.failed {
		recorder.WriteHeader(http.StatusServiceUnavailable)
		return recorder.Result(), nil
	}
	recorder.WriteHeader(http.StatusCreated)
	switch resource {
	case "authentication.k8s.io/v1/tokenreviews":
		review := authenticationv1.TokenReview{}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			return nil, err
		}
		review.Status.User, review.Status.Authenticated = s.users[review.Spec.Token], s.users[review.Spec.Token].Username != ""
		err := json.NewEncoder(recorder).Encode(review)
		return recorder.Result(), err
	default:
		review := authorizationv1.SubjectAccessReview{}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			return nil, err
		}
		s.access = review.Spec
		attributes := review.Spec.NonResourceAttributes
		review.Status.Allowed = review.Spec.User == s.reads && attributes.Verb == "get" && attributes.Path == "/metrics"
		err := json.NewEncoder(recorder).Encode(review)
		return recorder.Result(), err
	}
}

// metrics returns the filter in front of a handler that answers 200.
func (s *apiServer) metrics(t *testing.T) http.Handler {
	t.Helper()
	config := &rest.Config{Host: "https://kubernetes", ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	filter, err := Filter(config, &http.Client{Transport: s})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := filter(logr.Discard(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

func statusOf(metrics http.Handler, method, path, authorization string) int {
	recorder, request := httptest.NewRecorder(), httptest.NewRequest(method, path, http.NoBody)
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	metrics.ServeHTTP(recorder, request)
	return recorder.Code
}

func newServer() *apiServer {
	return &apiServer{reads: "scraper", users: map[string]authenticationv1.UserInfo{
		"secret": {
			Username: "scraper", UID: "7", Groups: []string{"monitoring"}, Extra: map[string]authenticationv1.ExtraValue{"pod": {"prometheus-0"}},
		},
		"other": {Username: "stranger"},
	}}
}

func TestFilter(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		method, path, authorization string
		failed                      string
		want                        int
		questions                   int
	}{
		"who may read metrics":      {authorization: "Bearer secret", want: http.StatusOK, questions: 2},
		"case and spaces":           {authorization: " bearer  secret ", want: http.StatusOK, questions: 2},
		"who may not":               {authorization: "Bearer other", want: http.StatusForbidden, questions: 2},
		"another path":              {path: "/debug", authorization: "Bearer secret", want: http.StatusForbidden, questions: 2},
		"another verb":              {method: http.MethodPost, authorization: "Bearer secret", want: http.StatusForbidden, questions: 2},
		"an unknown token":          {authorization: "Bearer made-up", want: http.StatusUnauthorized, questions: 1},
		"no token":                  {want: http.StatusUnauthorized},
		"an empty token":            {authorization: "Bearer ", want: http.StatusUnauthorized},
		"a password":                {authorization: "Basic secret", want: http.StatusUnauthorized},
		"TokenReview fails":         {authorization: "Bearer secret", failed: "authentication.k8s.io/v1/tokenreviews", want: 500, questions: 1},
		"SubjectAccessReview fails": {authorization: "Bearer secret", failed: "authorization.k8s.io/v1/subjectaccessreviews", want: 500, questions: 2},
	} {
		server := newServer()
		server.failed = test.failed
		if test.method == "" {
			test.method = http.MethodGet
		}
		if test.path == "" {
			test.path = "/metrics"
		}
		topologytest.Equal(t, name, test.want, statusOf(server.metrics(t), test.method, test.path, test.authorization))
		topologytest.Equal(t, name+": questions", test.questions, len(server.asked))
	}
}

// Authorization can depend on everything that the API server reported about the user.
func TestFilterPassesOnWhoTheUserIs(t *testing.T) {
	t.Parallel()
	server := newServer()
	topologytest.Equal(t, "status", http.StatusOK, statusOf(server.metrics(t), http.MethodGet, "/metrics", "Bearer secret"))
	topologytest.Equal(t, "user", authorizationv1.SubjectAccessReviewSpec{
		User: "scraper", UID: "7", Groups: []string{"monitoring"}, Extra: map[string]authorizationv1.ExtraValue{"pod": {"prometheus-0"}},
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: "get", Path: "/metrics"},
	}, server.access)
}
