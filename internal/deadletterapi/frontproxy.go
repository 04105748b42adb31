package deadletterapi

import (
	"context"
	"fmt"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
)

// frontProxy identifies the API server as a proxy of requests, by the certificate in its ConfigMap in kube-system. Such requests
// name their sender in headers.
type frontProxy struct {
	authority *dynamiccertificates.ConfigMapCAController
	headers   *headerrequest.RequestHeaderAuthRequestController
	requests  authenticator.Request
}

// The ConfigMap in which every API server publishes its proxy settings, and its keys. See
// https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer/.
const (
	frontProxyNamespace = "kube-system"
	frontProxyConfigMap = "extension-apiserver-authentication"
	keyAuthority        = "requestheader-client-ca-file"
	keyUsername         = "requestheader-username-headers"
	keyUID              = "requestheader-uid-headers"
	keyGroup            = "requestheader-group-headers"
	keyExtra            = "requestheader-extra-headers-prefix"
	keyNames            = "requestheader-allowed-names"
)

func newFrontProxy(client kubernetes.Interface) (*frontProxy, error) {
	authority, err := dynamiccertificates.NewDynamicCAFromConfigMapController(
		"front-proxy", frontProxyNamespace, frontProxyConfigMap, keyAuthority, client)
	if err != nil {
		return nil, fmt.Errorf("watch the certificates of the front proxy: %w", err)
	}
	headers := headerrequest.NewRequestHeaderAuthRequestController(
		frontProxyConfigMap, frontProxyNamespace, client, keyUsername, keyUID, keyGroup, keyExtra, keyNames)
	return &frontProxy{authority: authority, headers: headers, requests: headerrequest.NewDynamicVerifyOptionsSecure(
		authority.VerifyOptions,
		headerrequest.StringSliceProviderFunc(headers.AllowedClientNames), headerrequest.StringSliceProviderFunc(headers.UsernameHeaders),
		headerrequest.StringSliceProviderFunc(headers.UIDHeaders), headerrequest.StringSliceProviderFunc(headers.GroupHeaders),
		headerrequest.StringSliceProviderFunc(headers.ExtraHeaderPrefixes),
	)}, nil
}

// start reads the ConfigMap, and watches it until the context ends.
func (p *frontProxy) start(ctx context.Context) error {
	for _, read := range []func(context.Context) error{p.authority.RunOnce, p.headers.RunOnce} {
		if err := read(ctx); err != nil {
			return fmt.Errorf("read ConfigMap %s/%s for --dead-letters-front-proxy: %w", frontProxyNamespace, frontProxyConfigMap, err)
		}
	}
	go p.authority.Run(ctx, 1)
	go p.headers.Run(ctx, 1)
	return nil
}

// identify returns the sender that the API server names; nil if the request does not come from the API server.
func (p *frontProxy) identify(r *http.Request) user.Info {
	if p == nil || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil
	}
	response, known, err := p.requests.AuthenticateRequest(r)
	if err != nil || !known { // an error means that the certificate is not the API server's
		return nil
	}
	return response.User
}
