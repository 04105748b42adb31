// Package apiaccess asks the API server who sends a request, and what the sender may do. It is k8s.io/apiserver's delegating authenticator
// and authorizer with bounds: answers are cached, and few questions are open at a time, because anyone who reaches a port can ask.
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
	// maxReviews is how many TokenReviews and SubjectAccessReviews are open at a time.
	maxReviews = 16
	// reviewTime is how long the API server may take for a review.
	reviewTime = 10 * time.Second
	// keep is how long an answer is cached, and so how long a permission that was revoked still holds. A refusal for lack of permission
	// is cached for keepDenial, because a user who is given a role asks again at once.
	keep       = 10 * time.Second
	keepDenial = 2 * time.Second
)

// Access answers from its caches, or asks the API server. Its zero value must not be used.
type Access struct {
	tokens      authenticator.Token
	permissions authorizer.Authorizer
}

// New returns an Access that asks with the rights of a configuration. The configuration must be allowed to create TokenReviews and
// SubjectAccessReviews.
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
	// No audience is implied: an API server that knows nothing of audiences leaves them out of its answer, which is then refused.
	delegated, err := webhook.NewFromInterface(reviews, nil, retries, reviewTime, webhook.AuthenticatorMetrics{
		RecordRequestTotal: none, RecordRequestLatency: func(context.Context, string, float64) {},
	})
	if err != nil {
		return nil, fmt.Errorf("make the delegating authenticator: %w", err)
	}
	permissions, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: access, AllowCacheTTL: keep, DenyCacheTTL: keepDenial, WebhookRetryBackoff: &retries,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("make the delegating authorizer: %w", err)
	}
	return &Access{tokens: cache.New(tokens{delegated}, false, keep, keep), permissions: permissions}, nil
}

// Identify returns whose token this is; nil if the token is not valid for the audience. Without an audience the token must be meant for the
// API server. With one, only tokens that claim the audience are sent to the API server. An error says that the API server did not answer.
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

// Allows reports whether a user may do something. An error says that the API server did not answer.
func (a *Access) Allows(ctx context.Context, attributes authorizer.AttributesRecord) (bool, error) {
	decision, _, err := a.permissions.Authorize(ctx, attributes)
	if err != nil {
		return false, unanswered(fmt.Sprintf("create SubjectAccessReview for user %q: ", attributes.User.GetName()), err)
	}
	return decision == authorizer.DecisionAllow, nil
}

// unanswered hides the type of an error, which would pass for the answer to the sender: a 403 of a review is about the operator.
func unanswered(attempt string, err error) error { return errors.New(attempt + err.Error()) }

// tokens makes the API server's refusal of a token an answer, which is cached, where the delegating authenticator makes it an error.
type tokens struct{ authenticator.Token }

func (t tokens) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	response, known, err := t.Token.AuthenticateToken(ctx, token)
	if err != nil && !isFailure(ctx, err) {
		return nil, false, nil
	}
	return response, known, err
}

// isFailure reports whether an error says that the API server did not answer.
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
