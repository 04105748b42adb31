package metricsaccess

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/rest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/warren-mq/warren/internal/apiaccess"
)

// timeLimit is how long the API server may take for both of its answers.
const timeLimit = 10 * time.Second

// Filter is a filter of the metrics server that lets those pass whose bearer token belongs to somebody (TokenReview) who may do
// what they ask (SubjectAccessReview of a path). Others get 401 or 403, and 500 where the API server cannot be asked.
func Filter(config *rest.Config, httpClient *http.Client) (metricsserver.Filter, error) {
	access, err := apiaccess.New(config, httpClient)
	if err != nil {
		return nil, err
	}
	asked := &gate{access: access}
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
type gate struct{ access *apiaccess.Access }

// admit returns 200 for a request that may pass.
func (g *gate) admit(r *http.Request) (status int, err error) {
	token, given := apiaccess.BearerToken(r.Header.Get("Authorization"))
	if !given {
		return http.StatusUnauthorized, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeLimit)
	defer cancel()
	user, err := g.access.Identify(ctx, token, "")
	if err != nil || user == nil {
		return http.StatusUnauthorized, err
	}
	allowed, err := g.access.Allows(ctx, authorizer.AttributesRecord{User: user, Verb: strings.ToLower(r.Method), Path: r.URL.Path})
	if err != nil || !allowed {
		return http.StatusForbidden, err
	}
	return http.StatusOK, nil
}
