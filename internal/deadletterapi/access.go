package deadletterapi

import (
	"context"
	"errors"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/internal/callers"
)

// gate says who sends a request, and whether the sender may.
type gate struct {
	reviewer *callers.Reviewer
	proxy    *frontProxy // nil where requests of the API server are like all others
}

// wish is what a request is about, in the words of RBAC.
type wish struct {
	verb, namespace, name, subresource string
}

var resource = schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: v1alpha1.Resource}

// admit returns the name of the sender, or the error that answers the request.
func (g gate) admit(ctx context.Context, r *http.Request, w wish) (user string, err error) {
	sender, err := g.identify(ctx, r)
	if err != nil {
		return "", err
	}
	allowed, err := g.reviewer.Allows(ctx, sender, authorizationv1.SubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version, Resource: v1alpha1.Resource,
			Verb: w.verb, Namespace: w.namespace, Name: w.name, Subresource: w.subresource,
		},
	})
	if err != nil {
		return "", err
	}
	if !allowed {
		return "", forbidden(sender.Username, w)
	}
	return sender.Username, nil
}

// identify finds out who sends a request: whom the API server names, or whose token comes along. Certificates of others mean nothing.
func (g gate) identify(ctx context.Context, r *http.Request) (authenticationv1.UserInfo, error) {
	unknown := apierrors.NewUnauthorized(howToAuthenticate)
	if sender, known := g.proxy.identify(r); known {
		return sender, nil
	}
	token, given := r.Header.Get(v1alpha1.TokenHeader), true
	if token == "" {
		token, given = callers.BearerToken(r.Header.Get("Authorization"))
	}
	if !given {
		return authenticationv1.UserInfo{}, unknown
	}
	sender, known, err := g.reviewer.Identify(ctx, token, v1alpha1.Audience)
	if err == nil && !known {
		return sender, unknown
	}
	return sender, err
}

const howToAuthenticate = "give a token for the audience " + v1alpha1.Audience + " as a bearer token or in the header " +
	v1alpha1.TokenHeader + "; kubectl create token SERVICEACCOUNT --audience=" + v1alpha1.Audience + " makes one. " +
	"Client certificates and tokens for the API server are not accepted"

func forbidden(user string, w wish) error {
	what := resource
	if w.subresource != "" {
		what.Resource += "/" + w.subresource
	}
	where := "in namespace \"" + w.namespace + "\""
	if w.namespace == "" {
		where = "at the cluster scope"
	}
	return apierrors.NewForbidden(what, w.name, errors.New("user \""+user+"\" cannot "+w.verb+" resource \""+what.Resource+
		"\" in API group \""+what.Group+"\" "+where))
}
