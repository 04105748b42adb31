// Package apiaccess authenticates and authorizes requests through the API server. It wraps the delegating authenticator and authorizer of
// k8s.io/apiserver, caches their answers, and limits concurrent reviews, because any client that reaches a port can trigger reviews.
package apiaccess

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/token/cache"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/webhook"
	authentication "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
)

const (
	// maxReviews limits concurrent TokenReviews and SubjectAccessReviews.
	maxReviews = 16
	// reviewTime limits how long a review takes.
	reviewTime = 10 * time.Second
	// keep is how long an answer is cached. A revoked permission remains effective for that long. A denial is cached only for keepDenial,
	// because a user who was just granted a role retries soon.
	keep       = 10 * time.Second
	keepDenial = 2 * time.Second
)

// Access caches answers of the API server. Create it with New.
type Access struct {
	tokens      authenticator.Token
	permissions authorizer.Authorizer
}

// New returns an Access with the credentials of config, which must allow creating TokenReviews and SubjectAccessReviews.
func New(config *rest.Config, httpClient *http.Client) (*Access, error) {
	limited := *httpClient
	limited.Transport = &limiter{slots: make(chan struct{}, maxReviews), next: httpClient.Transport}
	reviews, err := authentication.NewForConfigAndClient(config, &limited)
	if err != nil {
		return nil, fmt.Errorf("make a client for TokenReviews: %w", err)
	}
	access, err := authorization.NewForConfigAndClient(config, &limited)
	if err != nil {
		return nil, fmt.Errorf("make a client for SubjectAccessReviews: %w", err)
	}
	retries := wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Steps: 3}
	none := func(context.Context, string) {}
	// Imply no audiences. An API server that does not support audiences omits them from its answer, and the authenticator then refuses the
	// answer.
	delegated, err := webhook.NewFromInterface(reviews, nil, retries, reviewTime, webhook.AuthenticatorMetrics{
		RecordRequestTotal: none, RecordRequestLatency: func(context.Context, string, float64) {},
	})
	if err != nil {
		return nil, fmt.Errorf("create the delegating authenticator: %w", err)
	}
	permissions, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: access, AllowCacheTTL: keep, DenyCacheTTL: keepDenial, WebhookRetryBackoff: &retries,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("create the delegating authorizer: %w", err)
	}
	return &Access{tokens: cache.New(tokens{delegated}, false, keep, keep), permissions: permissions}, nil
}

// Identify returns the owner of a token, or nil if the token is not valid for the audience. Without an audience, the token must
// be intended for the API server. With an audience, only tokens that claim it are sent to the API server. An error means that the
// API server did not answer.
func (a *Access) Identify(ctx context.Context, token, audience string) (user.Info, error) {
	if audience != "" {
		if !claims(token, audience) {
			return nil, nil
		}
		ctx = authenticator.WithAudiences(ctx, authenticator.Audiences{audience})
	}
	response, known, err := a.tokens.AuthenticateToken(ctx, token)
	if err != nil {
		return nil, unanswered("create TokenReview: ", err)
	}
	if !known {
		return nil, nil
	}
	return response.User, nil
}

// Allows reports whether a user may do something. An error means that the API server did not answer.
func (a *Access) Allows(ctx context.Context, attributes authorizer.AttributesRecord) (bool, error) {
	decision, _, err := a.permissions.Authorize(ctx, attributes)
	if err != nil {
		return false, unanswered(fmt.Sprintf("create SubjectAccessReview for user %q: ", attributes.User.GetName()), err)
	}
	return decision == authorizer.DecisionAllow, nil
}

// unanswered hides the type of an error. Otherwise a 403 of a review, which concerns the manager, would become the response to
// the sender.
func unanswered(attempt string, err error) error { return errors.New(attempt + err.Error()) }

// tokens returns a rejection by the API server as an answer instead of an error, because only answers are cached.
type tokens struct{ authenticator.Token }

func (t tokens) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	response, known, err := t.Token.AuthenticateToken(ctx, token)
	if err != nil && !isFailure(ctx, err) {
		return nil, false, nil
	}
	return response, known, err
}

// isFailure reports whether an error means that the API server did not answer.
func isFailure(ctx context.Context, err error) bool {
	if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) || wait.Interrupted(err) {
		return true
	}
	if _, failed := errors.AsType[*url.Error](err); failed {
		return true
	}
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status)
}
