package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// bareLocation is the location in the intents and statuses that the bare program writes.
var bareLocation = ownership.Location{
	Cluster: vhost.Cluster{ID: "sha256:5fbd4a0a1f3a1f0e5fbd4a0a1f3a1f0e", Name: "rabbit@broker", Endpoint: "broker:5672"}, VHost: "/",
}

// measureBareAPI measures how long the API server takes for the writes of a creation, by the user and by the manager. The program
// sends only these writes, 16 at a time. Afterwards a new API server replaces the filled one.
func measureBareAPI(ctx context.Context, w *world) ([]row, error) {
	r, err := w.measure(ctx, phaseBareAPI, func(context.Context) (outcome, error) {
		return outcome{}, forEach(w.count, func(number int) error {
			return writeCreation(ctx, w.server, w.layout.consumerQueue(number))
		})
	})
	if err != nil {
		return nil, err
	}
	r.http, r.amqp = nil, nil // there is no manager
	w.writing = r.took
	return []row{r}, w.renewAPIServer()
}

// writeCreation makes the writes of a creation. The user creates the ConsumerQueue. The manager patches the finalizer with the
// intents, updates the status to in sync, and creates one Event.
func writeCreation(ctx context.Context, api client.Client, cq *v1alpha1.ConsumerQueue) error {
	if err := api.Create(ctx, cq); err != nil {
		return err
	}
	status, err := statusInSync(cq)
	if err != nil {
		return err
	}
	before := cq.DeepCopy()
	controllerutil.AddFinalizer(cq, v1alpha1.TopologyFinalizer)
	if !ownership.AnnotateIntents(cq, bareLocation, status.Topology) {
		return fmt.Errorf("ConsumerQueue %q is not new", cq.Name)
	}
	if err := api.Patch(ctx, cq, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	cq.Status = status
	cq.ManagedFields = nil // the manager's cache drops them, too
	if err := api.Status().Update(ctx, cq, client.FieldOwner("warren")); err != nil {
		return err
	}
	return api.Create(ctx, &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: cq.Namespace, Name: cq.Name}, EventTime: metav1.NowMicro(),
		ReportingController: "warren", ReportingInstance: "warren", Action: "Declare", Reason: "Declared", Type: corev1.EventTypeNormal,
		Note:      "declared 1 exchange, 4 queues and 1 binding",
		Regarding: corev1.ObjectReference{Kind: "ConsumerQueue", Namespace: cq.Namespace, Name: cq.Name, UID: cq.UID},
	})
}

// statusInSync returns the status of a ConsumerQueue whose objects are all in sync.
func statusInSync(cq *v1alpha1.ConsumerQueue) (v1alpha1.ConsumerQueueStatus, error) {
	desired, err := topology.Desired(cq, vhost.RabbitMQ43)
	if err != nil {
		return v1alpha1.ConsumerQueueStatus{}, err
	}
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	status := v1alpha1.ConsumerQueueStatus{
		ObservedGeneration: 1, QueueName: cq.QueueName(), ConnectionName: cq.ConnectionName(), LastSyncedTime: &now,
		Messages: &v1alpha1.MessageCounts{Main: new(int64), Delayed: new(int64), DeadLettered: new(int64), AsOf: now},
	}
	bareLocation.Record(&status.Location)
	add := func(id vhost.ID, role v1alpha1.Role) {
		entry := topology.EntryOf(id)
		entry.Role, entry.State, entry.LastSyncedHash = role, v1alpha1.StateInSync, "v1:06967e3c5605e8ec"
		if entry.Kind != v1alpha1.KindBinding {
			entry.Origin = v1alpha1.OriginDeclared
		}
		status.Topology = append(status.Topology, entry)
	}
	for _, exchange := range desired.Exchanges {
		add(exchange.ID(), exchange.Role)
	}
	for _, queue := range desired.Queues {
		add(queue.ID(), queue.Role)
	}
	for _, binding := range desired.Bindings {
		add(binding.ID(), binding.Role)
	}
	message := fmt.Sprintf("all %d objects match the spec", len(status.Topology))
	for condition, value := range map[string]metav1.ConditionStatus{
		v1alpha1.ConditionReady: metav1.ConditionTrue, v1alpha1.ConditionDrifted: metav1.ConditionFalse,
		v1alpha1.ConditionRecreationRequired: metav1.ConditionFalse,
	} {
		status.Conditions = append(status.Conditions, metav1.Condition{
			Type: condition, Status: value, Reason: v1alpha1.ReasonInSync, Message: message, LastTransitionTime: now, ObservedGeneration: 1,
		})
	}
	return status, nil
}
