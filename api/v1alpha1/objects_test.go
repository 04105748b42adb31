package v1alpha1_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/conformance"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/specgen"
)

func namespace(t *testing.T) string {
	t.Helper()
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := kube.Create(t.Context(), space); err != nil {
		t.Fatal(err)
	}
	return space.Name
}

func TestAnyCombinationOfFieldsIsAccepted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		cq := specgen.ConsumerQueue().Draw(rt, "ConsumerQueue")
		sent := unstructuredOf(t, cq)
		if err := kube.Create(t.Context(), sent, client.DryRunAll); err != nil {
			text, _ := json.Marshal(cq.Spec)
			rt.Fatalf("%v\n%s", err, text)
		}
		wantDecodes(t, sent)
	})
}

// TestStoredObjectsAreListed: Go must be able to list every accepted object, or no controller would start again.
func TestStoredObjectsAreListed(t *testing.T) {
	t.Parallel()
	space := namespace(t)
	for i, spec := range []string{
		`{}`, `queue: {deliveryLimit: 2147483647, maxLengthBytes: 9223372036854775807, arguments: {x-a: -2147483648, x-b: "3000000000"}}`,
		`{queue: {messageTTL: 4294967295ms, consumerTimeout: 000001h}, retry: {delayTiers: [{delay: 1ms}]}}`, `queue: {maxLengthBytes: 1e3}`,
	} {
		stored := object(t, "ConsumerQueue", "stored-"+string(rune('a'+i)), spec)
		stored.SetNamespace(space)
		if err := kube.Create(t.Context(), stored); err != nil {
			t.Fatalf("%s: %v", spec, err)
		}
		var list v1alpha1.ConsumerQueueList
		if err := kube.List(t.Context(), &list, client.InNamespace(space)); err != nil || len(list.Items) != i+1 {
			t.Fatalf("%s: listed %d, %v", spec, len(list.Items), err)
		}
	}
}

// pending is a condition that every new object has.
func pending(kind string) map[string]any {
	return map[string]any{"type": kind, "status": "Unknown", "reason": "Pending", "message": "not reconciled yet", "lastTransitionTime": "1970-01-01T00:00:00Z"}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind, spec string
		wantSpec   map[string]any
		wantStatus map[string]any
	}{
		"of a ConsumerQueue": {
			kind: "ConsumerQueue", spec: `{}`,
			wantSpec: map[string]any{
				"deadLetterStrategy": "AtLeastOnce", "driftPolicy": "Correct", "recreatePolicy": "Manual", "deletionPolicy": "DeleteIfEmpty", "suspend": false,
			},
			wantStatus: map[string]any{
				"observedGeneration": int64(-1), "conditions": []any{pending("Ready"), pending("Drifted"), pending("RecreationRequired")},
			},
		},
		"of a BrokerConnection": {
			kind: "BrokerConnection", spec: `{secretRef: {name: s}}`,
			wantSpec:   map[string]any{"secretRef": map[string]any{"name": "s"}, "vhost": "/", "resyncInterval": "30s", "suspend": false},
			wantStatus: map[string]any{"observedGeneration": int64(-1), "conditions": []any{pending("Ready")}},
		},
		"nothing deeper than the top level": {
			kind: "ConsumerQueue", spec: `{queue: {}, retry: {delayTiers: [{delay: 1s}]}, deadLetter: {queue: {}, exchange: {}}, bindings: [{exchange: {name: e}}]}`,
			wantSpec: map[string]any{
				"deadLetterStrategy": "AtLeastOnce", "driftPolicy": "Correct", "recreatePolicy": "Manual", "deletionPolicy": "DeleteIfEmpty", "suspend": false,
				"queue":      map[string]any{},
				"retry":      map[string]any{"delayTiers": []any{map[string]any{"delay": "1s"}}},
				"deadLetter": map[string]any{"queue": map[string]any{}, "exchange": map[string]any{}},
				"bindings":   []any{map[string]any{"exchange": map[string]any{"name": "e"}}},
			},
			wantStatus: map[string]any{
				"observedGeneration": int64(-1), "conditions": []any{pending("Ready"), pending("Drifted"), pending("RecreationRequired")},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			created := object(t, test.kind, "defaults", test.spec)
			created.SetNamespace(namespace(t))
			if err := kube.Create(t.Context(), created); err != nil {
				t.Fatal(err)
			}
			if err := kube.Get(t.Context(), client.ObjectKeyFromObject(created), created); err != nil {
				t.Fatal(err)
			}
			if difference := cmp.Diff(test.wantSpec, created.Object["spec"]); difference != "" {
				t.Errorf("spec (-want +got):\n%s", difference)
			}
			if difference := cmp.Diff(test.wantStatus, created.Object["status"]); difference != "" {
				t.Errorf("status (-want +got):\n%s", difference)
			}
		})
	}
}

// TestGitOpsToolsSeeNoDifference applies each conformance vector and some specs by server-side apply, and reads them back. The
// read spec equals the applied one, plus the top-level defaults.
func TestGitOpsToolsSeeNoDifference(t *testing.T) {
	t.Parallel()
	given := []*unstructured.Unstructured{
		object(t, "ConsumerQueue", "orders", `{}`),
		object(t, "ConsumerQueue", "odd", `{queue: {deliveryLimit: 5, maxLengthBytes: 1024Mi, arguments: {x-a: 1, x-b: "1"}}, retry: {delayTiers: [{delay: 90m}], exchange: {name: e}}, suspend: true}`),
	}
	for _, vector := range conformance.Load(t) {
		for i := range vector.ConsumerQueues {
			given = append(given, unstructuredOf(t, &vector.ConsumerQueues[i]))
		}
	}
	for _, applied := range given {
		t.Run(applied.GetName(), func(t *testing.T) {
			t.Parallel()
			applied.SetNamespace(namespace(t))
			want := applied.DeepCopy().Object["spec"].(map[string]any)
			for field, value := range map[string]any{
				"deadLetterStrategy": "AtLeastOnce", "driftPolicy": "Correct", "recreatePolicy": "Manual", "deletionPolicy": "DeleteIfEmpty", "suspend": false,
			} {
				if _, set := want[field]; !set {
					want[field] = value
				}
			}
			for range 2 { // the second apply changes nothing
				sent := applied.DeepCopy()
				if err := kube.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(sent), client.FieldOwner("gitops")); err != nil {
					t.Fatal(err)
				}
				read := applied.DeepCopy()
				if err := kube.Get(t.Context(), client.ObjectKeyFromObject(applied), read); err != nil {
					t.Fatal(err)
				}
				if difference := cmp.Diff(want, read.Object["spec"]); difference != "" {
					t.Errorf("spec (-want +got):\n%s", difference)
				}
				if read.GetGeneration() != 1 {
					t.Errorf("generation %d, want 1", read.GetGeneration())
				}
			}
		})
	}
}

// Lists are atomic: the last applier owns the whole list, and entries of two appliers are not merged.
func TestListsAreAtomic(t *testing.T) {
	t.Parallel()
	space := namespace(t)
	apply := func(owner, tiers, keys string) *unstructured.Unstructured {
		t.Helper()
		sent := object(t, "ConsumerQueue", "orders",
			`{retry: {delayTiers: `+tiers+`}, bindings: [{exchange: {name: shop, type: topic}, routingKeys: `+keys+`}]}`)
		sent.SetNamespace(space)
		sent.SetManagedFields(nil)
		err := kube.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(sent), client.FieldOwner(owner), client.ForceOwnership)
		if err != nil {
			t.Fatal(err)
		}
		return sent
	}
	apply("one", `[{delay: 1m}, {delay: 2m}]`, `[a, b]`)
	stored := apply("another", `[{delay: 3m}]`, `[c]`)
	want := map[string]any{
		"bindings": []any{map[string]any{"exchange": map[string]any{"name": "shop", "type": "topic"}, "routingKeys": []any{"c"}}},
		"retry":    map[string]any{"delayTiers": []any{map[string]any{"delay": "3m"}}},
	}
	for field, list := range want {
		if difference := cmp.Diff(list, stored.Object["spec"].(map[string]any)[field]); difference != "" {
			t.Errorf("%s (-want +got):\n%s", field, difference)
		}
	}
}

// TestDefaultedConditionsCanBeReplaced updates a status as Warren does. Default conditions that are not part of the update
// disappear.
func TestDefaultedConditionsCanBeReplaced(t *testing.T) {
	t.Parallel()
	for kind, spec := range map[string]string{"ConsumerQueue": `{}`, "BrokerConnection": `{secretRef: {name: broker}}`} {
		created := object(t, kind, "orders", spec)
		created.SetNamespace(namespace(t))
		if err := kube.Create(t.Context(), created); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{"observedGeneration": int64(1), "conditions": []any{pending("Suspended")}}
		created.Object["status"] = want
		if err := kube.Status().Update(t.Context(), created, client.FieldOwner("warren")); err != nil {
			t.Fatal(err)
		}
		read := object(t, kind, "orders", spec)
		if err := kube.Get(t.Context(), client.ObjectKeyFromObject(created), read); err != nil {
			t.Fatal(err)
		}
		if difference := cmp.Diff(want, read.Object["status"]); difference != "" {
			t.Errorf("status of a %s (-want +got):\n%s", kind, difference)
		}
	}
}

func TestKubectlExplains(t *testing.T) {
	t.Parallel()
	awaitSchemas(t)
	for path, want := range map[string][]string{
		"consumerqueue": {"ConsumerQueue is the topology of one consumer"},
		"consumerqueue.spec.retry": {
			"defines how a failed message waits", "delayTiers", "exchange", "maxAttempts", "policy", "redeliveryDelay", "returnTo", "strategy",
			"enum: Publish, Reject, Requeue", "enum: MaxAttempts, None",
		},
		"consumerqueue.spec.queue.deliveryLimit": {"Unlimited", "BrokerDefault", "x-delivery-limit"},
		"brokerconnection.spec":                  {"secretRef", "clusterRef", "resyncInterval"},
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			output := kubectl(t, "explain", path)
			for _, part := range want {
				if !strings.Contains(output, part) {
					t.Errorf("%q is missing in:\n%s", part, output)
				}
			}
		})
	}
}

// awaitSchemas waits until the API server publishes the schemas of both kinds, which kubectl explain reads. The API server serves
// a new CRD a moment before it publishes its schema.
func awaitSchemas(t *testing.T) {
	t.Helper()
	group := "apis/" + v1alpha1.GroupVersion.String()
	published := func(context.Context) (bool, error) {
		paths, err := schemas.Paths()
		if err != nil || paths[group] == nil {
			return false, err
		}
		document, err := paths[group].Schema("application/json")
		return bytes.Contains(document, []byte(".ConsumerQueue\"")) && bytes.Contains(document, []byte(".BrokerConnection\"")), err
	}
	if err := wait.PollUntilContextTimeout(t.Context(), deadline.Polling, deadline.For(10*time.Second), true, published); err != nil {
		t.Fatalf("the API server publishes no schemas: %v", err)
	}
}

func TestKubectlGet(t *testing.T) {
	t.Parallel()
	space := namespace(t)
	for kind, spec := range map[string]string{"ConsumerQueue": `{}`, "BrokerConnection": `{secretRef: {name: s}}`} {
		created := object(t, kind, "orders", spec)
		created.SetNamespace(space)
		if err := kube.Create(t.Context(), created); err != nil {
			t.Fatal(err)
		}
	}
	for arguments, want := range map[string]string{
		"cqueue":         "NAME QUEUE READY DEAD DRIFTED RECREATE REASON AGE",
		"cqueue -o wide": "NAME QUEUE READY DEAD DRIFTED RECREATE REASON AGE CONNECTION ADVISORY MESSAGE",
		"bc":             "NAME VHOST READY VERSION QUEUES REASON AGE",
		"bc -o wide":     "NAME VHOST READY VERSION QUEUES REASON AGE CLUSTER MESSAGE",
	} {
		output := kubectl(t, append([]string{"get", "-n", space}, strings.Fields(arguments)...)...)
		header, _, _ := strings.Cut(output, "\n")
		if got := strings.Join(strings.Fields(header), " "); got != want {
			t.Errorf("kubectl get %s: %s, want %s", arguments, got, want)
		}
	}
	if output := kubectl(t, "get", "warren", "-n", space, "-o", "name"); len(strings.Fields(output)) != 2 {
		t.Errorf("kubectl get warren: %s", output)
	}
}

// kubectl runs the command as a user would.
func kubectl(t *testing.T, arguments ...string) string {
	t.Helper()
	output, err := server.Kubectl(t.Context(), "", arguments...)
	if err != nil {
		t.Fatal(err)
	}
	return output
}
