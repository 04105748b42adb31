package metricsaccess

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authentication "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// timeLimit is how long the API server may take for both of its answers.
const timeLimit = 10 * time.Second

// Filter is a filter of the metrics server that lets those pass whose bearer token belongs to somebody (TokenReview) who may do
// what they ask (SubjectAccessReview of a path). Others get 401 or 403, and 500 where the API server cannot be asked.
func Filter(config *rest.Config, httpClient *http.Client) (metricsserver.Filter, error) {
	identities, err := authentication.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("make a client for TokenReviews: %w", err)
	}
	permissions, err := authorization.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("make a client for SubjectAccessReviews: %w", err)
	}
	asked := &gate{tokens: identities.TokenReviews(), access: permissions.SubjectAccessReviews(), answers: newAnswers(time.Now)}
	return func(log logr.Logger, metrics http.Handler) (http.Handler, error) {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			status, err := asked.admit(r)
			switch {
			case err != nil:
				log.Error(err, "Cannot tell whether a caller may read metrics")
				http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
			case status != http.StatusOK:
				http.Error(w, http.StatusText(status), status)
			default:
				metrics.ServeHTTP(w, r)
			}
		}), nil
	}, nil
}

// gate decides who passes.
type gate struct {
	tokens  authentication.TokenReviewInterface
	access  authorization.SubjectAccessReviewInterface
	answers *answers
}

// admit returns 200 for a request that may pass. The API server is asked unless it has answered the same question recently.
func (g *gate) admit(r *http.Request) (status int, err error) {
	token, given := bearerToken(r.Header.Get("Authorization"))
	if !given {
		return http.StatusUnauthorized, nil
	}
	asks := question{token: sha256.Sum256([]byte(token)), verb: strings.ToLower(r.Method), path: r.URL.Path}
	if status, known := g.answers.get(asks); known {
		return status, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeLimit)
	defer cancel()
	if status, err = g.ask(ctx, token, asks); err != nil {
		return 0, err
	}
	g.answers.put(asks, status)
	return status, nil
}

func (g *gate) ask(ctx context.Context, token string, asks question) (status int, err error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if review, err = g.tokens.Create(ctx, review, metav1.CreateOptions{}); err != nil {
		return 0, fmt.Errorf("create TokenReview: %w", err)
	}
	if !review.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user := review.Status.User
	access := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: map[string]authorizationv1.ExtraValue{},
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: asks.verb, Path: asks.path},
	}}
	for key, values := range user.Extra {
		access.Spec.Extra[key] = authorizationv1.ExtraValue(values)
	}
	if access, err = g.access.Create(ctx, access, metav1.CreateOptions{}); err != nil {
		return 0, fmt.Errorf("create SubjectAccessReview for user %q: %w", user.Username, err)
	}
	if !access.Status.Allowed || access.Status.Denied {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}

// bearerToken is the token in a header, if there is one.
func bearerToken(header string) (token string, given bool) {
	scheme, token, _ := strings.Cut(strings.TrimSpace(header), " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "bearer") && token != ""
}
