// Package v1alpha1 holds the responses of the dead-letter API, which the manager serves. The cluster stores none of them: the
// manager reads messages from the broker for each request.
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of all responses.
var GroupVersion = schema.GroupVersion{Group: "deadletters.messaging.warren.dev", Version: "v1alpha1"}

// TypeOf returns the type of a response of this kind.
func TypeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{Kind: kind, APIVersion: GroupVersion.String()}
}

// Resource is the name of the resource in RBAC rules.
const Resource = "deadletterqueues"

// The subresources. RBAC grants each with the verb get.
const (
	SubresourceMessages = "messages"
	SubresourceExport   = "export"
)

// Audience is the audience of tokens that the API accepts.
const Audience = "warren"

// TokenHeader is the HTTP header for tokens if the header Authorization does not arrive: the proxy of the API server removes it.
const TokenHeader = "X-Warren-Token" //nolint:gosec // it names a header
