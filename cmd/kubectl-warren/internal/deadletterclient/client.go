// Package deadletterclient is a client of the dead-letter API for the queues of one namespace. If the API server serves the API,
// it connects there. Otherwise it uses the API server's proxy, with a token of a ServiceAccount of the namespace.
package deadletterclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
)

// Options configure a Client.
type Options struct {
	// Namespace of the ConsumerQueues.
	Namespace string
	// ServiceAccount of the namespace authenticates requests through the proxy.
	ServiceAccount string
	// WarrenNamespace and Service name the manager's Service.
	WarrenNamespace, Service string
	// Say is called once per request with the reason if the client must wait.
	Say func(sentence string)
}

// Client is a client of the dead-letter API.
type Client struct {
	options Options
	core    corev1.CoreV1Interface
	// base is the path of the API at the API server.
	base string
	// token is empty if the API server authenticates the user.
	token string
	// wait waits, or returns why the wait ended early.
	wait func(context.Context, time.Duration) error
}

const (
	// maxTries is the number of attempts while the API asks to retry within maxDelay.
	maxTries = 10
	maxDelay = 5 * time.Second
	// tokenSeconds is the lifetime of a token: the minimum that API servers accept. A running request may outlive its token.
	tokenSeconds = 600
)

// Connect finds the API, and requests a token if one is needed.
func Connect(ctx context.Context, config *rest.Config, options Options) (*Client, error) {
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON // the only one of the API
	core, err := corev1.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	c := &Client{options: options, core: core, wait: wait}
	served, err := c.isServed(ctx)
	if err != nil || served {
		return c, err
	}
	c.base = fmt.Sprintf("/api/v1/namespaces/%s/services/https:%s:https/proxy", options.WarrenNamespace, options.Service)
	c.token, err = c.createToken(ctx)
	return c, err
}

// isServed reports whether the API server serves the API. If the group exists but is not available, the client uses the proxy.
func (c *Client) isServed(ctx context.Context) (bool, error) {
	err := c.core.RESTClient().Get().AbsPath("/apis", v1alpha1.GroupVersion.Group, v1alpha1.GroupVersion.Version).
		MaxRetries(0).Do(ctx).Error()
	if _, answered := errors.AsType[*apierrors.StatusError](err); answered {
		return false, nil
	}
	return err == nil, err
}

func (c *Client) createToken(ctx context.Context) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{v1alpha1.Audience}, ExpirationSeconds: new(int64(tokenSeconds)),
	}}
	created, err := c.core.ServiceAccounts(c.options.Namespace).
		CreateToken(ctx, c.options.ServiceAccount, request, metav1.CreateOptions{})
	if err != nil {
		return "", c.explainToken(err)
	}
	return created.Status.Token, nil
}

// Get requests the dead-letter queue of a ConsumerQueue, or a subresource of the queue. The caller must close the response.
// Errors say what to do.
func (c *Client) Get(ctx context.Context, name, subresource string, query url.Values) (io.ReadCloser, error) {
	if wrong := content.IsPathSegmentName(name); len(wrong) > 0 {
		return nil, fmt.Errorf("%q is not a valid name of a ConsumerQueue: %v", name, wrong)
	}
	return c.stream(ctx, subresource, func() *rest.Request { return c.request(query, name, subresource) })
}

// List requests the dead-letter queues of the namespace. The API answers without a request to a broker. The caller must close the
// response. Errors say what to do.
func (c *Client) List(ctx context.Context) (io.ReadCloser, error) {
	return c.stream(ctx, "", func() *rest.Request { return c.request(nil) })
}

// IsServed reports whether the API server serves the API. Otherwise the client uses the API server's proxy.
func (c *Client) IsServed() bool { return c.token == "" }

// stream sends a request again while the API asks to retry within maxDelay.
func (c *Client) stream(ctx context.Context, subresource string, request func() *rest.Request) (io.ReadCloser, error) {
	for tries := 1; ; tries++ {
		answer, err := request().Stream(ctx)
		if err == nil {
			return answer, nil
		}
		seconds, again := apierrors.SuggestsClientDelay(err)
		delay := time.Duration(seconds) * time.Second
		if !again || delay > maxDelay || tries == maxTries {
			return nil, c.explain(err, subresource)
		}
		if tries == 1 {
			c.options.Say(err.Error())
		}
		if err := c.wait(ctx, delay); err != nil {
			return nil, err
		}
	}
}

// Read is Get for a response that is read completely.
func (c *Client) Read(ctx context.Context, name, subresource string, query url.Values) ([]byte, error) {
	answer, err := c.Get(ctx, name, subresource, query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Close() }()
	text, err := io.ReadAll(answer)
	if err != nil {
		return nil, brokeOff(err, subresource)
	}
	return text, nil
}

// request returns a request for the dead-letter queues of the namespace. below are further segments of the path; empty ones are left
// out.
func (c *Client) request(query url.Values, below ...string) *rest.Request {
	segments := append([]string{
		c.base, "apis", v1alpha1.GroupVersion.Group, v1alpha1.GroupVersion.Version,
		"namespaces", c.options.Namespace, v1alpha1.Resource,
	}, slices.DeleteFunc(below, func(name string) bool { return name == "" })...)
	request := c.core.RESTClient().Get().AbsPath(segments...).MaxRetries(0)
	for parameter, values := range query {
		for _, value := range values {
			request.Param(parameter, value)
		}
	}
	if c.token != "" {
		request.SetHeader(v1alpha1.TokenHeader, c.token)
	}
	return request
}

func wait(ctx context.Context, delay time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(delay):
		return nil
	}
}
