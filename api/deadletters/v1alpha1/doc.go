// Package v1alpha1 has the answers of the dead-letter API, which the manager serves. Nothing of them is kept in the cluster: messages are
// read from the broker while somebody asks.
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is that of all answers.
var GroupVersion = schema.GroupVersion{Group: "deadletters.messaging.warren.dev", Version: "v1alpha1"}

// TypeOf is the type of an answer of this kind.
func TypeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{Kind: kind, APIVersion: GroupVersion.String()}
}

// Resource is what the rules of RBAC name, with the subresources below.
const Resource = "deadletterqueues"

// The subresources. Each has its verb get.
const (
	SubresourceMessages = "messages"
	SubresourceExport   = "export"
)

// Audience is the audience of the tokens that the API takes.
const Audience = "warren"

// TokenHeader is the HTTP header for tokens where the header Authorization does not arrive: the proxy of the API server removes it.
const TokenHeader = "X-Warren-Token" //nolint:gosec // the name of a header
