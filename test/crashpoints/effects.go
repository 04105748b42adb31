package crashpoints

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Effect is a write of the manager to the broker or the API server.
type Effect struct {
	Operation

	// Number counts the effects with the same operation, from 1 on.
	Number int
}

// Operation is what an effect does. Random parts of names are replaced, so that all runs of a flow have the same operations.
type Operation struct {
	// Kind is a method and, for the API server, a resource and the phase in its status, such as "queue.declare" or
	// "update consumerqueues/status Emptying".
	Kind string
	// Object is the name of the object that the effect changes.
	Object string
}

func (e Effect) String() string { return fmt.Sprintf("%s %s #%d", e.Kind, e.Object, e.Number) }

// randomParts match what differs between two runs in the names of the objects that Warren declares.
var randomParts = []struct {
	pattern     *regexp.Regexp
	replacement string
}{
	{regexp.MustCompile(`\bwarren-(hold|backlog|back|probe)-[a-z0-9]{10}`), "warren-$1-ID"},
	{regexp.MustCompile(`\bwarren-(fence|recreate)-\d+-[A-Z0-9]{6}:[^:]*:`), "warren-$1-ID:"},
	{regexp.MustCompile(`\bwarren(-link-|\.nowhere\.)[A-Z0-9]+`), "warren${1}ID"},
}

// withoutRandomParts returns a text that is the same in all runs of a flow.
func withoutRandomParts(text string) string {
	for _, part := range randomParts {
		text = part.pattern.ReplaceAllString(text, part.replacement)
	}
	return text
}

// maxRow is how many effects with the same operation are crash points one by one. A longer row moves messages.
const maxRow = 8

// crashPoints returns the effects before and after which the manager is killed: all, but of a long row only the first, the middle and
// the last.
func crashPoints(effects []Effect) []Effect {
	rows := map[Operation]int{}
	for _, effect := range effects {
		rows[effect.Operation]++
	}
	var points []Effect
	for _, effect := range effects {
		length := rows[effect.Operation]
		if length <= maxRow || slices.Contains([]int{1, (length + 1) / 2, length}, effect.Number) {
			points = append(points, effect)
		}
	}
	return points
}

// verbs are the HTTP methods of writes.
var verbs = map[string]string{
	http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// notEffects are resources whose writes leave nothing that a later manager reads.
var notEffects = []string{"events", "leases", "tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectreviews"}

// kubernetesOperation returns the operation of a request to the API server; false if it is not an effect.
func kubernetesOperation(method, path string, body []byte) (Operation, bool) {
	verb, writes := verbs[method]
	resource, name := splitPath(path)
	if !writes || resource == "" || slices.Contains(notEffects, resource) {
		return Operation{}, false
	}
	var content struct {
		Metadata struct{ Name string }
		Status   struct{ Recreation struct{ Phase string } }
	}
	_ = json.Unmarshal(body, &content) // a body that is not JSON tells neither name nor phase
	if name == "" {
		name = content.Metadata.Name
	}
	kind := verb + " " + resource
	if phase := content.Status.Recreation.Phase; phase != "" {
		kind += " " + phase
	}
	return Operation{kind, name}, true
}

// splitPath returns the resource, with its subresource, and the name in a path of the API server, such as
// /apis/messaging.warren.dev/v1alpha1/namespaces/shop/consumerqueues/orders/status.
func splitPath(path string) (resource, name string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	group := 2 // the core group has no name
	if parts[0] == "apis" {
		group = 3
	}
	parts = parts[min(group, len(parts)):]
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	switch len(parts) {
	case 0:
		return "", ""
	case 1:
		return parts[0], ""
	}
	return strings.Join(append([]string{parts[0]}, parts[2:]...), "/"), parts[1]
}

// managementOperation returns the operation of a request to the management API; false if it is not an effect.
func managementOperation(method, escapedPath string) (Operation, bool) {
	verb, writes := verbs[method]
	if !writes {
		return Operation{}, false
	}
	parts := strings.Split(strings.TrimPrefix(escapedPath, "/api/"), "/")
	name, err := url.PathUnescape(parts[len(parts)-1])
	if err != nil {
		name = parts[len(parts)-1]
	}
	return Operation{verb + " " + parts[0], withoutRandomParts(name)}, true
}
