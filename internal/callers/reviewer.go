// Package callers asks the API server who sends a request, and what the sender may do.
package callers

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authentication "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
)

// Reviewer asks the API server.
type Reviewer struct {
	tokens authentication.TokenReviewInterface
	access authorization.SubjectAccessReviewInterface
}

// NewReviewer makes a Reviewer that asks with the rights of a configuration: it needs those to create TokenReviews and
// SubjectAccessReviews.
func NewReviewer(config *rest.Config, httpClient *http.Client) (*Reviewer, error) {
	identities, err := authentication.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("make a client for TokenReviews: %w", err)
	}
	permissions, err := authorization.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("make a client for SubjectAccessReviews: %w", err)
	}
	return &Reviewer{tokens: identities.TokenReviews(), access: permissions.SubjectAccessReviews()}, nil
}

// Identify returns whose bearer token this is, and false if it is nobody's. With an audience, the token has to be meant for that; without
// one, for the API server.
func (r *Reviewer) Identify(ctx context.Context, token, audience string) (authenticationv1.UserInfo, bool, error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if audience != "" {
		review.Spec.Audiences = []string{audience}
	}
	review, err := r.tokens.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, false, fmt.Errorf("create TokenReview: %w", err)
	}
	// An authenticator that knows nothing of audiences leaves them out of its answer.
	meant := audience == "" || slices.Contains(review.Status.Audiences, audience)
	return review.Status.User, review.Status.Authenticated && meant, nil
}

// Allows says whether a user may do what the attributes of a specification say: ResourceAttributes or NonResourceAttributes.
func (r *Reviewer) Allows(
	ctx context.Context, user authenticationv1.UserInfo, attributes authorizationv1.SubjectAccessReviewSpec,
) (bool, error) {
	attributes.User, attributes.UID, attributes.Groups = user.Username, user.UID, user.Groups
	attributes.Extra = map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		attributes.Extra[key] = authorizationv1.ExtraValue(values)
	}
	review, err := r.access.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: attributes}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("create SubjectAccessReview for user %q: %w", user.Username, err)
	}
	return review.Status.Allowed && !review.Status.Denied, nil
}

// BearerToken is the token in an Authorization header, if there is one.
func BearerToken(header string) (token string, given bool) {
	scheme, token, _ := strings.Cut(strings.TrimSpace(header), " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "bearer") && token != ""
}
