package crashpoints

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
	{regexp.MustCompile(`\bwarren-(fence|recreate|recreate-again)-\d+-[A-Z0-9]{6}:[^:]*:`), "warren-$1-ID:"},
	{regexp.MustCompile(`\bwarren(-link-|\.nowhere\.)[A-Z0-9]+`), "warren${1}ID"},
	{regexp.MustCompile(`\brecreation [a-z0-9]{10}\b`), "recreation ID"},
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
	_ = json.Unmarshal(body, &content) // a body that is not JSON has neither name nor phase
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

func TestOperationsOfTheAPIServer(t *testing.T) {
	t.Parallel()
	const group = "/apis/messaging.warren.dev/v1alpha1/namespaces/shop/"
	for name, test := range map[string]struct{ method, path, body, want string }{
		"a phase": {
			http.MethodPut, group + "consumerqueues/orders/status", `{"status":{"recreation":{"phase":"Emptying"}}}`,
			"update consumerqueues/status Emptying orders",
		},
		"a status":        {http.MethodPut, group + "purges/first/status", `{}`, "update purges/status first"},
		"a finalizer":     {http.MethodPatch, group + "redrives/again", `{}`, "patch redrives again"},
		"a core resource": {http.MethodDelete, "/api/v1/namespaces/shop/configmaps/orders", "", "delete configmaps orders"},
		"the name in a body": {
			http.MethodPost, "/api/v1/namespaces/shop/configmaps", `{"metadata":{"name":"orders"}}`, "create configmaps orders",
		},
		"no namespace": {http.MethodPost, "/api/v1/namespaces", `{"metadata":{"name":"shop"}}`, "create namespaces shop"},
		"a read":       {http.MethodGet, group + "purges/first", "", ""},
		"an Event":     {http.MethodPost, "/apis/events.k8s.io/v1/namespaces/shop/events", `{}`, ""},
		"no resource":  {http.MethodPost, "/", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			operation, isEffect := kubernetesOperation(test.method, test.path, []byte(test.body))
			if diff := cmp.Diff(test.want, text(operation, isEffect)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOperationsOfTheManagementAPI(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/api/policies/%2F/warren-fence-1764151200-ABC234:cluster%2Fid:orders": "update policies warren-fence-ID:orders",
		"/api/policies/a%2Fb/warren-recreate-1764151200-ABC234::orders":        "update policies warren-recreate-ID:orders",
		"/api/policies/v/theirs": "update policies theirs",
	} {
		operation, isEffect := managementOperation(http.MethodPut, path)
		if diff := cmp.Diff(want, text(operation, isEffect)); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
	if operation, isEffect := managementOperation(http.MethodGet, "/api/policies/v"); isEffect {
		t.Errorf("a read is the effect %v", operation)
	}
}

// text is the operation of an effect; empty if it is none.
func text(operation Operation, isEffect bool) string {
	if !isEffect {
		return ""
	}
	return operation.Kind + " " + operation.Object
}

func TestRandomPartsOfNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"warren-hold-abcde23456.orders":             "warren-hold-ID.orders",
		"warren-backlog-abcde23456.orders":          "warren-backlog-ID.orders",
		"warren-backlog-abcde23456":                 "warren-backlog-ID",
		"warren-probe-abcde23456.orders":            "warren-probe-ID.orders",
		"warren-back-abcde23456":                    "warren-back-ID",
		"warren-link-JGGTA2MRO3BZ6KMQ":              "warren-link-ID",
		"warren.nowhere.VF2QFN2E6X773PYSPJ7K6XQPSH": "warren.nowhere.ID",
		"orders.retry.30s":                          "orders.retry.30s",
		"recreation abcde23456 of queue":            "recreation ID of queue",
	} {
		if got := withoutRandomParts(name); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

func TestCrashPointsOfARow(t *testing.T) {
	t.Parallel()
	row := func(kind string, numbers ...int) (effects []Effect) {
		for _, number := range numbers {
			effects = append(effects, Effect{Operation{kind, "orders"}, number})
		}
		return effects
	}
	upTo := func(last int) (numbers []int) {
		for number := 1; number <= last; number++ {
			numbers = append(numbers, number)
		}
		return numbers
	}
	for length, want := range map[int][]int{maxRow: upTo(maxRow), maxRow + 1: {1, 5, 9}, 300: {1, 150, 300}} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			t.Parallel()
			effects := append(row("basic.publish", upTo(length)...), row("queue.delete", 1)...)
			wanted := append(row("basic.publish", want...), row("queue.delete", 1)...)
			if diff := cmp.Diff(wanted, crashPoints(effects)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
