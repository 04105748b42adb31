package deadletterclient

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
)

// Error is an error response, with advice on what to do.
type Error struct {
	err    error
	remedy string
	code   int
}

// Code returns the HTTP status of the response; zero if there was none.
func (e *Error) Code() int { return e.code }

func (e *Error) Error() string {
	if e.remedy == "" {
		return e.err.Error()
	}
	return e.err.Error() + "\n" + e.remedy
}

func (e *Error) Unwrap() error { return e.err }

// role is the least role that a ServiceAccount needs, without the prefix of the installation. Users with the built-in role edit can
// act as any ServiceAccount of the namespace.
var role = map[string]string{
	"":                           "deadletterqueue-viewer-role",
	v1alpha1.SubresourceMessages: "deadletterqueue-editor-role",
	v1alpha1.SubresourceExport:   "deadletterqueue-admin-role",
}

// installed returns the name that an object of Warren has in the cluster. It has the prefix of the Service: each Helm release has
// another one.
func (c *Client) installed(name string) string {
	return strings.TrimSuffix(c.options.Service, "dead-letters") + name
}

func (c *Client) explainToken(err error) error {
	account, namespace := c.options.ServiceAccount, c.options.Namespace
	switch {
	case apierrors.IsNotFound(err):
		return &Error{err, fmt.Sprintf("The dead-letter API needs a ServiceAccount in the namespace. A user with the role admin in the "+
			"namespace creates it, once:\n"+
			"  kubectl --namespace %[1]s create serviceaccount %[2]s\n"+
			"%[3]s\n"+
			"To show only counts, bind the role %[4]s instead. To use another ServiceAccount, add --service-account. "+
			"If the Helm release is not called warren, add --warren-service.\n"+
			"Without a ServiceAccount, you can still count messages and move them back:\n"+
			"  kubectl warren dlq redrive NAME --namespace %[1]s --dry-run",
			namespace, account, c.bindCommand(role[v1alpha1.SubresourceMessages]), c.installed(role[""])), http.StatusNotFound}
	case apierrors.IsForbidden(err):
		return &Error{err, fmt.Sprintf("The dead-letter API accepts only tokens of a ServiceAccount of the namespace, and you may not "+
			"create tokens of %[1]q in namespace %[2]q. Ask a user with the role admin in the namespace to permit it, for this "+
			"ServiceAccount alone:\n"+
			"  kubectl --namespace %[2]s create role %[1]s-token --verb=create --resource=serviceaccounts/token --resource-name=%[1]s\n"+
			"  kubectl --namespace %[2]s create rolebinding %[1]s-token --role=%[1]s-token --user=YOU",
			account, namespace), http.StatusForbidden}
	}
	return err
}

func (c *Client) bindCommand(role string) string {
	account, namespace := c.options.ServiceAccount, c.options.Namespace
	return fmt.Sprintf("  kubectl --namespace %s create rolebinding %s-%s --clusterrole=%s --serviceaccount=%s:%s",
		namespace, account, role, c.installed(role), namespace, account)
}

// explain adds advice to an error response. The manager's messages for 400, 401, 409 and 429 already contain it.
func (c *Client) explain(err error, subresource string) error {
	failure, answered := errors.AsType[*apierrors.StatusError](err)
	if !answered {
		return err
	}
	status := failure.Status()
	return &Error{errors.New(messageOf(status)), c.remedy(err, status, subresource), int(status.Code)}
}

func (c *Client) remedy(err error, status metav1.Status, subresource string) string {
	// For a missing Service, older API servers report missing endpoints, and newer ones a Service without endpoints.
	fromProxy := status.Details != nil && slices.Contains([]string{"services", "endpoints"}, status.Details.Kind)
	seconds, again := apierrors.SuggestsClientDelay(err)
	switch {
	case fromProxy && apierrors.IsNotFound(err), apierrors.IsServiceUnavailable(err) && !again:
		return fmt.Sprintf("Service %q in namespace %q does not answer. Check --warren-namespace and --warren-service. "+
			"Otherwise the manager is not running, is older than the dead-letter API, or does not serve it. To find the pod that "+
			"serves it:\n  kubectl --namespace %[2]s get pods --selector messaging.warren.dev/active=true",
			c.options.Service, c.options.WarrenNamespace)
	case fromProxy && apierrors.IsForbidden(err):
		return fmt.Sprintf("The Role %s allows every user to use the proxy of this Service. Check that the Role exists in namespace %q, "+
			"and check --warren-namespace and --warren-service.", c.installed("dead-letters-proxy-role"), c.options.WarrenNamespace)
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("`kubectl warren dlq ls --namespace %s` lists the dead-letter queues of the namespace.", c.options.Namespace)
	case apierrors.IsForbidden(err) && c.token != "":
		return "Ask a user with the role admin in the namespace to run:\n" +
			c.bindCommand(role[subresource])
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("Ask for the role in namespace %q: view is enough to count, edit to read messages, admin to export them.",
			c.options.Namespace)
	case again && seconds > int(maxDelay.Seconds()) && apierrors.IsTooManyRequests(err):
		return "" // the message names the job that must end
	case again && seconds > int(maxDelay.Seconds()):
		return fmt.Sprintf("Try again in %d s.", seconds)
	case again:
		return fmt.Sprintf("Tried %d times.", maxTries)
	}
	return ""
}

// brokeOff returns the error for a truncated response. The manager disconnects clients that are too slow.
func brokeOff(err error, subresource string) error {
	remedy := "Try again."
	if subresource == v1alpha1.SubresourceMessages {
		remedy = "Try again, or request less with --limit and --body-limit."
	}
	return &Error{err: fmt.Errorf("the response was truncated: %w", err), remedy: remedy}
}

// messageOf returns the message of a response. A proxy without a backend responds in plain text.
func messageOf(status metav1.Status) string {
	if status.Details != nil {
		for _, cause := range status.Details.Causes {
			if cause.Type == metav1.CauseTypeUnexpectedServerResponse && cause.Message != "unknown" && cause.Message != "" {
				return cause.Message
			}
		}
	}
	return status.Message
}
