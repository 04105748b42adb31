package deadletterapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/internal/apiaccess"
)

// gate authenticates and authorizes requests.
type gate struct {
	access *apiaccess.Access
	proxy  *frontProxy // nil without --dead-letters-front-proxy
}

// attributes describe a request in terms of RBAC.
type attributes struct {
	verb, namespace, name, subresource string
}

// sender is the user who sent a request.
type sender struct {
	name string
	// credentialID identifies the token of a ServiceAccount, which many users may share. It is empty if the API server knows no ID. The
	// audit log of the API server has the ID in the annotation authentication.kubernetes.io/issued-credential-id of the request for the
	// token.
	credentialID string
}

func senderOf(authenticated user.Info) sender {
	return sender{authenticated.GetName(), strings.Join(authenticated.GetExtra()[user.CredentialIDKey], ",")}
}

// logged returns the keys and values of the sender in a log.
func (s sender) logged() []any { return []any{"user", s.name, "credentialID", s.credentialID} }

var resource = schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: v1alpha1.Resource}

// Limits of names in Kubernetes. No object has a longer name, and longer names would fill the caches of reviews.
const (
	maxNamespace = 63
	maxName      = 253
)

// authorize returns the sender, or the error to respond with. If the sender lacks permission, it returns the sender and an error that
// names the sender and the request. again checks the permission of the sender later, when the token may have expired.
func (g gate) authorize(
	ctx context.Context, r *http.Request, w attributes,
) (by sender, again func(context.Context) error, err error) {
	if len(w.namespace) > maxNamespace || len(w.name) > maxName {
		return sender{}, nil, apierrors.NewBadRequest("the name of the namespace or the ConsumerQueue is too long")
	}
	authenticated, err := g.identify(ctx, r)
	if err != nil {
		return sender{}, nil, err
	}
	again = func(ctx context.Context) error { return g.allow(ctx, authenticated, w) }
	return senderOf(authenticated), again, again(ctx)
}

// allow returns an error if the sender lacks permission.
func (g gate) allow(ctx context.Context, by user.Info, w attributes) error {
	allowed, err := g.access.Allows(ctx, authorizer.AttributesRecord{
		User: by, Verb: w.verb, Namespace: w.namespace,
		APIGroup: v1alpha1.GroupVersion.Group, APIVersion: v1alpha1.GroupVersion.Version,
		Resource: v1alpha1.Resource, Subresource: w.subresource, Name: w.name, ResourceRequest: true,
	})
	if err != nil {
		return err
	}
	if !allowed {
		return forbidden(by.GetName(), w)
	}
	return nil
}

// identify returns the sender of a request: the user that the API server names, or the owner of the token. It ignores other
// client certificates.
func (g gate) identify(ctx context.Context, r *http.Request) (user.Info, error) {
	if by := g.proxy.identify(r); by != nil {
		return by, nil
	}
	token, given := r.Header.Get(v1alpha1.TokenHeader), true
	if token == "" {
		token, given = apiaccess.BearerToken(r.Header.Get("Authorization"))
	}
	if !given {
		return nil, apierrors.NewUnauthorized(howToAuthenticate)
	}
	by, err := g.access.Identify(ctx, token, v1alpha1.Audience)
	if err == nil && by == nil {
		return nil, apierrors.NewUnauthorized(howToAuthenticate)
	}
	return by, err
}

const howToAuthenticate = "give a token for the audience " + v1alpha1.Audience + " as a bearer token or in the header " +
	v1alpha1.TokenHeader + "; kubectl create token SERVICEACCOUNT --audience=" + v1alpha1.Audience + " creates one. " +
	"Client certificates and tokens for the API server are not accepted"

func forbidden(name string, w attributes) error {
	what := resource
	if w.subresource != "" {
		what.Resource += "/" + w.subresource
	}
	where := fmt.Sprintf("in namespace %q", w.namespace)
	if w.namespace == "" {
		where = "at the cluster scope"
	}
	return apierrors.NewForbidden(what, w.name, fmt.Errorf("user %q cannot %s resource %q in API group %q %s",
		name, w.verb, what.Resource, what.Group, where))
}
