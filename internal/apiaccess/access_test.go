package apiaccess

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/rest"

	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// apiServer simulates an API server that knows one token, of alice, for some audiences. It counts reviews.
type apiServer struct {
	audiences []string
	token     string
	// silent is true if the server omits audiences in its answer.
	silent bool
	// may is the ConsumerQueue that alice may browse.
	may    string
	failed int // the code of all responses; 0 for answers
	asked  atomic.Int64
	access authorizationv1.SubjectAccessReviewSpec
	// wait blocks reviews until it is closed, unless it is nil.
	wait chan struct{}
}

func (s *apiServer) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked.Add(1)
	if s.wait != nil {
		<-s.wait
	}
	recorder := httptest.NewRecorder()
	recorder.Header().Set("Content-Type", "application/json")
	if s.failed != 0 {
		recorder.WriteHeader(s.failed)
		return recorder.Result(), nil
	}
	recorder.WriteHeader(http.StatusCreated)
	var answer any
	if strings.HasSuffix(r.URL.Path, "/tokenreviews") {
		review := &authenticationv1.TokenReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil {
			return nil, err
		}
		review.Status = s.review(review.Spec)
		answer = review
	} else {
		review := &authorizationv1.SubjectAccessReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil {
			return nil, err
		}
		s.access = review.Spec
		review.Status.Allowed = review.Spec.ResourceAttributes.Name == s.may
		answer = review
	}
	err := json.NewEncoder(recorder).Encode(answer)
	return recorder.Result(), err
}

func (s *apiServer) review(asked authenticationv1.TokenReviewSpec) authenticationv1.TokenReviewStatus {
	if asked.Token != s.token {
		return authenticationv1.TokenReviewStatus{Error: "invalid bearer token"}
	}
	status := authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{
		Username: "alice", UID: "7", Groups: []string{"shop"}, Extra: map[string]authenticationv1.ExtraValue{"pod": {"a"}},
	}}
	if s.silent || len(asked.Audiences) == 0 {
		return status
	}
	for _, audience := range asked.Audiences {
		if slices.Contains(s.audiences, audience) {
			status.Audiences = append(status.Audiences, audience)
		}
	}
	if len(status.Audiences) == 0 {
		return authenticationv1.TokenReviewStatus{Error: "token audiences are invalid"}
	}
	return status
}

func (s *apiServer) new(t *testing.T) *Access {
	t.Helper()
	config := &rest.Config{Host: "https://kubernetes", QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	access, err := New(config, &http.Client{Transport: s})
	if err != nil {
		t.Fatal(err)
	}
	return access
}

// jwt returns an unsigned token with these claims.
func jwt(claims string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

func TestIdentify(t *testing.T) {
	t.Parallel()
	valid := jwt(`{"aud":["warren"]}`)
	for name, test := range map[string]struct {
		token     string
		audiences []string
		silent    bool
		failed    int
		known     bool
		failure   bool
		asked     int64
	}{
		"a token for the audience":       {token: valid, audiences: []string{"warren"}, known: true, asked: 1},
		"a token for two audiences":      {token: jwt(`{"aud":["vault","warren"]}`), audiences: []string{"vault", "warren"}, known: true, asked: 1},
		"an audience that is a text":     {token: jwt(`{"aud":"warren"}`), audiences: []string{"warren"}, known: true, asked: 1},
		"an audience that is only said":  {token: valid, audiences: []string{"vault"}, asked: 1},
		"a server without audiences":     {token: valid, audiences: []string{"warren"}, silent: true, asked: 1},
		"a token for the API server":     {token: jwt(`{"aud":["https://kubernetes"]}`), audiences: []string{"warren"}},
		"a token without an audience":    {token: jwt(`{}`), audiences: []string{"warren"}},
		"a token that is no JWT":         {token: "secret", audiences: []string{"warren"}},
		"a token with two parts":         {token: "e30.e30", audiences: []string{"warren"}},
		"a token of which nothing reads": {token: "a.!.c", audiences: []string{"warren"}},
		"an API server that fails":       {token: valid, audiences: []string{"warren"}, failed: 403, failure: true, asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := &apiServer{token: test.token, audiences: test.audiences, silent: test.silent, failed: test.failed}
			sender, err := server.new(t).Identify(t.Context(), test.token, "warren")
			topologytest.Equal(t, "failure", test.failure, err != nil)
			topologytest.Equal(t, "the error denies the request of the sender", false, apierrors.IsForbidden(err))
			topologytest.Equal(t, "known", test.known, sender != nil)
			topologytest.Equal(t, "questions", test.asked, server.asked.Load())
			if sender != nil {
				topologytest.Equal(t, "user", user.Info(&user.DefaultInfo{
					Name: "alice", UID: "7", Groups: []string{"shop"}, Extra: map[string][]string{"pod": {"a"}},
				}), sender)
			}
		})
	}
}

// Without an audience, any token is sent to the API server, which expects its own audience.
func TestIdentifyForTheAPIServer(t *testing.T) {
	t.Parallel()
	server := &apiServer{token: "secret"}
	access := server.new(t)
	sender, err := access.Identify(t.Context(), "secret", "")
	topologytest.Equal(t, "error", nil, err)
	topologytest.Equal(t, "user", "alice", sender.GetName())
	sender, err = access.Identify(t.Context(), "made-up", "")
	topologytest.Equal(t, "error", nil, err)
	topologytest.Equal(t, "user", user.Info(nil), sender)
}

// Authorization can depend on everything that the API server reported about the user.
func TestAllows(t *testing.T) {
	t.Parallel()
	server := &apiServer{may: "orders"}
	access := server.new(t)
	asks := func(name string) authorizer.AttributesRecord {
		return authorizer.AttributesRecord{
			User: &user.DefaultInfo{Name: "alice", UID: "7", Groups: []string{"shop"}, Extra: map[string][]string{"pod": {"a"}}},
			Verb: "get", Namespace: "shop", Resource: "deadletterqueues", Name: name, ResourceRequest: true,
		}
	}
	for name, want := range map[string]bool{"orders": true, "bills": false} {
		allowed, err := access.Allows(t.Context(), asks(name))
		topologytest.Equal(t, name+": error", nil, err)
		topologytest.Equal(t, name, want, allowed)
		topologytest.Equal(t, "question", authorizationv1.SubjectAccessReviewSpec{
			User: "alice", UID: "7", Groups: []string{"shop"}, Extra: map[string]authorizationv1.ExtraValue{"pod": {"a"}},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Namespace: "shop", Resource: "deadletterqueues", Name: name},
		}, server.access)
	}
	server.failed = http.StatusForbidden // the manager may not create reviews
	allowed, err := access.Allows(t.Context(), asks("other"))
	topologytest.Equal(t, "allowed", false, allowed)
	if err == nil || !strings.HasPrefix(err.Error(), `create SubjectAccessReview for user "alice": `) || apierrors.IsForbidden(err) {
		t.Errorf("error %v", err)
	}
}

// Answers are cached, a denial for a shorter time, and a failure not at all.
func TestAnswersAreCached(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{token: "secret", may: "orders"}
		access := server.new(t)
		ask := func(about, token, name string, questions int64) {
			t.Helper()
			before := server.asked.Load()
			if sender, _ := access.Identify(t.Context(), token, ""); sender != nil {
				_, _ = access.Allows(t.Context(), authorizer.AttributesRecord{User: sender, Name: name, ResourceRequest: true})
			}
			topologytest.Equal(t, about, questions, server.asked.Load()-before)
		}
		ask("a new token", "secret", "orders", 2)
		ask("the same again", "secret", "orders", 0)
		ask("another resource", "secret", "bills", 1)
		ask("a denial", "secret", "bills", 0)
		ask("an unknown token", "made-up", "", 1)
		ask("an unknown token again", "made-up", "", 0)
		time.Sleep(keepDenial + time.Second)
		ask("a denial that expired", "secret", "bills", 1)
		ask("a permission", "secret", "orders", 0)
		time.Sleep(keep)
		ask("all has expired", "secret", "orders", 2)
		server.failed = http.StatusForbidden
		ask("a failure", "other", "", 1)
		ask("the failure again", "other", "", 1)
	})
}

// A flood of tokens does not cause a flood of reviews.
func TestFewQuestionsAreOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{wait: make(chan struct{})}
		access := server.new(t)
		for number := range 100 {
			go func() { _, _ = access.Identify(t.Context(), "made-up-"+strconv.Itoa(number), "") }()
		}
		synctest.Wait()
		topologytest.Equal(t, "open questions", maxReviews, int(server.asked.Load()))
		close(server.wait)
		synctest.Wait()
		topologytest.Equal(t, "all questions", 100, int(server.asked.Load()))
	})
}
