package crashpoints

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
