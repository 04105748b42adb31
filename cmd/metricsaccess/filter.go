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

// timeLimit is the limit for the TokenReview and the SubjectAccessReview together.
const timeLimit = 10 * time.Second

// Filter returns a filter of the metrics server. It admits a request if its bearer token is valid (TokenReview) and its owner may
// access the path (SubjectAccessReview). Otherwise the response is 401 or 403, or 500 if the API server does not answer.
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
				log.Error(err, "Cannot authorize a request for metrics")
				http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
			case status != http.StatusOK:
				http.Error(w, http.StatusText(status), status)
			default:
				metrics.ServeHTTP(w, r)
			}
		}), nil
	}, nil
}

// gate admits or rejects requests.
type gate struct{ access *apiaccess.Access }

// admit returns 200 for a request that is authorized.
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
