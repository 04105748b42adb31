package ownership_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

var shop = ownership.Location{Cluster: vhost.Cluster{ID: "1", Name: "rabbit@a", Endpoint: "mq:5672"}, VHost: "shop"}

// newcomer is a ConsumerQueue as the API server creates it.
func newcomer(t *testing.T) *v1alpha1.ConsumerQueue {
	t.Helper()
	cq := controllertest.ConsumerQueue(t, `{retry: {policy: None}}`)
	cq.UID, cq.Status.ObservedGeneration = "of-orders", -1
	cq.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionUnknown, Reason: "Pending"}}
	return cq
}

// entries has one entry of each kind that Warren owns, and some of others.
func entries() []v1alpha1.TopologyEntry {
	return []v1alpha1.TopologyEntry{
		{Kind: v1alpha1.KindExchange, Name: "events", Role: v1alpha1.RoleSource, State: v1alpha1.StateMissing},
		{Kind: v1alpha1.KindExchange, Name: "orders.dlx", Role: v1alpha1.RoleDeadLetter, State: v1alpha1.StateMissing, Origin: v1alpha1.OriginDeclared},
		{
			Kind: v1alpha1.KindQueue, Name: "orders", Role: v1alpha1.RoleMain, State: v1alpha1.StateInSync,
			Origin: v1alpha1.OriginAdopted, LastSyncedHash: "v1:1",
		},
		{Kind: v1alpha1.KindQueue, Name: "orders.dlq", Role: v1alpha1.RoleDeadLetter, State: v1alpha1.StateRecreationRequired, Origin: v1alpha1.OriginAdopted},
		{
			Kind: v1alpha1.KindBinding, Source: "orders.dlx", Destination: "orders.dlq", RoutingKey: "<&>", Arguments: `{"a":"\"b\""}`,
			Role: v1alpha1.RoleDeadLetter, State: v1alpha1.StateMissing,
		},
		{Kind: v1alpha1.KindBinding, Source: "x", Destination: "orders", State: v1alpha1.StateForeign},
	}
}

// annotated is a ConsumerQueue with intents and no later write.
func annotated(t *testing.T) *v1alpha1.ConsumerQueue {
	t.Helper()
	cq := newcomer(t)
	if !ownership.AnnotateIntents(cq, shop, entries()) {
		t.Fatal("not annotated")
	}
	return cq
}

// Restored entries are only intents: the annotation cannot claim that an object was found or in sync.
func TestIntentsAreRestored(t *testing.T) {
	t.Parallel()
	cq := annotated(t)
	topologytest.Equal(t, "restored", true, ownership.RestoreIntents(cq))
	topologytest.Equal(t, "topology", []v1alpha1.TopologyEntry{
		{Kind: v1alpha1.KindExchange, Name: "orders.dlx", Role: v1alpha1.RoleDeadLetter, State: v1alpha1.StateUnknown, Origin: v1alpha1.OriginDeclared},
		{Kind: v1alpha1.KindQueue, Name: "orders", Role: v1alpha1.RoleMain, State: v1alpha1.StateUnknown, Origin: v1alpha1.OriginDeclared},
		{
			Kind: v1alpha1.KindBinding, Source: "orders.dlx", Destination: "orders.dlq", RoutingKey: "<&>", Arguments: `{"a":"\"b\""}`,
			Role: v1alpha1.RoleDeadLetter, State: v1alpha1.StateUnknown,
		},
	}, cq.Status.Topology)
	topologytest.Equal(t, "intended", true, topology.Intended(cq.Status.Topology[0]))
	topologytest.Equal(t, "location", shop, ownership.Recorded(cq.Status.Location))
	topologytest.Equal(t, "conditions", "Pending", cq.Status.Conditions[0].Reason)
	topologytest.Equal(t, "annotations", 0, len(cq.Annotations))
	topologytest.Equal(t, "restored again", false, ownership.RestoreIntents(cq))
}

// The annotation is invalid for another ConsumerQueue, and after a write of the status, whatever happened to the status since.
func TestIntentsThatDoNotCount(t *testing.T) {
	t.Parallel()
	text := func(change func(map[string]any)) func(*v1alpha1.ConsumerQueue) {
		return func(cq *v1alpha1.ConsumerQueue) {
			content := map[string]any{}
			if err := json.Unmarshal([]byte(cq.Annotations[v1alpha1.IntentsAnnotation]), &content); err != nil {
				t.Error(err)
			}
			change(content)
			changed, err := json.Marshal(content)
			if err != nil {
				t.Error(err)
			}
			cq.Annotations[v1alpha1.IntentsAnnotation] = string(changed)
		}
	}
	object := func(fields string) func(*v1alpha1.ConsumerQueue) {
		return text(func(content map[string]any) {
			entry := map[string]any{}
			if err := json.Unmarshal([]byte(fields), &entry); err != nil {
				t.Error(err)
			}
			content["objects"] = append(content["objects"].([]any), entry)
		})
	}
	for name, change := range map[string]func(*v1alpha1.ConsumerQueue){
		"copied to another resource, or restored from a backup": func(cq *v1alpha1.ConsumerQueue) { cq.UID = "of-another" },
		"the status says where the topology is":                 func(cq *v1alpha1.ConsumerQueue) { shop.Record(&cq.Status.Location) },
		"the status speaks of a generation":                     func(cq *v1alpha1.ConsumerQueue) { cq.Status.ObservedGeneration = 1 },
		"the status was emptied":                                func(cq *v1alpha1.ConsumerQueue) { cq.Status = v1alpha1.ConsumerQueueStatus{} },
		"the status names the queue":                            func(cq *v1alpha1.ConsumerQueue) { cq.Status.QueueName = "orders" },
		"the status was written, and lost": func(cq *v1alpha1.ConsumerQueue) {
			cq.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}, {Manager: "kubectl-replace", Subresource: "status"}}
		},
		"no JSON":            func(cq *v1alpha1.ConsumerQueue) { cq.Annotations[v1alpha1.IntentsAnnotation] = "orders" },
		"nothing":            func(cq *v1alpha1.ConsumerQueue) { cq.Annotations[v1alpha1.IntentsAnnotation] = "" },
		"nowhere":            text(func(content map[string]any) { delete(content, "cluster") }),
		"no objects":         text(func(content map[string]any) { delete(content, "objects") }),
		"too long":           text(func(content map[string]any) { content["vhost"] = strings.Repeat("x", 40<<10) }),
		"a foreign binding":  object(`{"kind": "Binding", "source": "x", "destination": "orders"}`),
		"an unknown kind":    object(`{"kind": "VHost", "name": "shop", "role": "Main"}`),
		"too many, and more": text(func(content map[string]any) { content["objects"] = make([]map[string]string, 257) }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cq := annotated(t)
			change(cq)
			before := cq.DeepCopy().Status
			topologytest.Equal(t, "restored", false, ownership.RestoreIntents(cq))
			topologytest.Equal(t, "status", before, cq.Status)
			topologytest.Equal(t, "annotations", 0, len(cq.Annotations))
		})
	}
}

// If the annotation would be invalid or too large, the intents go into the status.
func TestIntentsThatAreNotAnnotated(t *testing.T) {
	t.Parallel()
	many := entries()
	for i := range 300 {
		many = append(many, v1alpha1.TopologyEntry{
			Kind: v1alpha1.KindBinding, Source: "events", Destination: "orders", RoutingKey: fmt.Sprint(strings.Repeat("x", 100), i), Role: v1alpha1.RoleSource,
		})
	}
	for name, test := range map[string]struct {
		change  func(*v1alpha1.ConsumerQueue)
		entries []v1alpha1.TopologyEntry
		here    ownership.Location
	}{
		"the status was written": {change: func(cq *v1alpha1.ConsumerQueue) { cq.Status.QueueName = "orders" }, entries: entries(), here: shop},
		"many objects":           {change: func(*v1alpha1.ConsumerQueue) {}, entries: many, here: shop},
		"the cluster is unknown": {change: func(*v1alpha1.ConsumerQueue) {}, entries: entries()},
	} {
		cq := newcomer(t)
		test.change(cq)
		topologytest.Equal(t, name, false, ownership.AnnotateIntents(cq, test.here, test.entries))
		topologytest.Equal(t, name+": annotation", "", cq.Annotations[v1alpha1.IntentsAnnotation])
	}
}
