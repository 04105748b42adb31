package metricsaccess

import (
	"context"
	"crypto/sha256"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/warren-mq/warren/internal/callers"
)

// timeLimit is how long the API server may take for both of its answers.
const timeLimit = 10 * time.Second

// Filter is a filter of the metrics server that lets those pass whose bearer token belongs to somebody (TokenReview) who may do
// what they ask (SubjectAccessReview of a path). Others get 401 or 403, and 500 where the API server cannot be asked.
func Filter(config *rest.Config, httpClient *http.Client) (metricsserver.Filter, error) {
	reviewer, err := callers.NewReviewer(config, httpClient)
	if err != nil {
		return nil, err
	}
	asked := &gate{reviewer: reviewer, answers: newAnswers(time.Now)}
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
	reviewer *callers.Reviewer
	answers  *answers
}

// admit returns 200 for a request that may pass. The API server is asked unless it has answered the same question recently.
func (g *gate) admit(r *http.Request) (status int, err error) {
	token, given := callers.BearerToken(r.Header.Get("Authorization"))
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
	user, known, err := g.reviewer.Identify(ctx, token, "")
	if err != nil || !known {
		return http.StatusUnauthorized, err
	}
	allowed, err := g.reviewer.Allows(ctx, user, authorizationv1.SubjectAccessReviewSpec{
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: asks.verb, Path: asks.path},
	})
	if err != nil || !allowed {
		return http.StatusForbidden, err
	}
	return http.StatusOK, nil
}
