package deadletterapi

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/internal/apiaccess"
)

// reviewer simulates an API server that takes every token for a token of alice. Alice may read the messages of orders in namespace
// shop.
type reviewer struct{ reviews int }

func (s *reviewer) RoundTrip(r *http.Request) (*http.Response, error) {
	s.reviews++
	var answer any
	if strings.HasSuffix(r.URL.Path, "/tokenreviews") {
		answer = &authenticationv1.TokenReview{Status: authenticationv1.TokenReviewStatus{
			Authenticated: true, Audiences: []string{v1alpha1.Audience}, User: authenticationv1.UserInfo{
				Username: "alice", Extra: map[string]authenticationv1.ExtraValue{"authentication.kubernetes.io/credential-id": {"JTI=7"}},
			},
		}}
	} else {
		review := &authorizationv1.SubjectAccessReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil {
			return nil, err
		}
		granted := authorizationv1.ResourceAttributes{
			Namespace: "shop", Verb: "get", Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version,
			Resource: v1alpha1.Resource, Subresource: "messages", Name: "orders",
		}
		review.Status.Allowed = review.Spec.User == "alice" && *review.Spec.ResourceAttributes == granted
		answer = review
	}
	recorder := httptest.NewRecorder()
	recorder.Header().Set("Content-Type", "application/json")
	recorder.WriteHeader(http.StatusCreated)
	err := json.NewEncoder(recorder).Encode(answer)
	return recorder.Result(), err
}

func TestAuthorize(t *testing.T) {
	t.Parallel()
	token := "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"aud":"`+v1alpha1.Audience+`"}`)) + ".c2ln"
	orders := attributes{verb: "get", namespace: "shop", name: "orders", subresource: "messages"}
	for name, test := range map[string]struct {
		token     string
		asked     attributes
		sender    string
		failure   string
		unchecked bool // refused without a review
	}{
		"a granted request": {token: token, asked: orders, sender: "alice"},
		"another namespace": {
			token: token, asked: attributes{verb: "get", namespace: "bank", name: "orders", subresource: "messages"}, sender: "alice",
			failure: `deadletterqueues/messages.deadletters.messaging.warren.dev "orders" is forbidden: user "alice" cannot get resource ` +
				`"deadletterqueues/messages" in API group "deadletters.messaging.warren.dev" in namespace "bank"`,
		},
		"all namespaces": {
			token: token, asked: attributes{verb: "list"}, sender: "alice",
			failure: `deadletterqueues.deadletters.messaging.warren.dev is forbidden: user "alice" cannot list resource ` +
				`"deadletterqueues" in API group "deadletters.messaging.warren.dev" at the cluster scope`,
		},
		"no token": {asked: orders, failure: howToAuthenticate, unchecked: true},
		"a name that is too long": {
			token: token, asked: attributes{verb: "get", namespace: "shop", name: strings.Repeat("a", maxName+1)},
			failure: "the name of the namespace or the ConsumerQueue is too long", unchecked: true,
		},
		"a namespace that is too long": {
			token: token, asked: attributes{verb: "list", namespace: strings.Repeat("a", maxNamespace+1)},
			failure: "the name of the namespace or the ConsumerQueue is too long", unchecked: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := &reviewer{}
			config := &rest.Config{Host: "https://kubernetes", QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
			access, err := apiaccess.New(config, &http.Client{Transport: api})
			if err != nil {
				t.Fatal(err)
			}
			request := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
			if test.token != "" {
				request.Header.Set("Authorization", "Bearer "+test.token)
			}
			by, _, err := gate{access: access}.authorize(t.Context(), request, test.asked)
			failure := ""
			if err != nil {
				failure = err.Error()
			}
			credential := ""
			if test.sender != "" {
				credential = "JTI=7"
			}
			want := []string{test.sender, credential, test.failure}
			if difference := cmp.Diff(want, []string{by.name, by.credentialID, failure}); difference != "" {
				t.Errorf("sender and error (-want +got):\n%s", difference)
			}
			if test.unchecked && api.reviews > 0 {
				t.Errorf("the API server was asked %d times", api.reviews)
			}
		})
	}
}
