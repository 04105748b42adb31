package apiwrites

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

const (
	owner = client.FieldOwner("warren")
	// inSync is a hash such as a status has of each object.
	inSync = "v1:06967e3c5605e8ec"
)

// location is what the intents and the status say of where the objects are.
var location = ownership.Location{
	Cluster: vhost.Cluster{ID: "sha256:5fbd4a0a1f3a1f0e5fbd4a0a1f3a1f0e", Name: "rabbit@broker", Endpoint: "broker:5672"}, VHost: "/",
}

// Write changes a ConsumerQueue as the API server returned it last.
type Write func(ctx context.Context, api client.Client, cq *v1alpha1.ConsumerQueue) error

// InTurn makes several writes, one after the other.
func InTurn(writes ...Write) Write {
	return func(ctx context.Context, api client.Client, cq *v1alpha1.ConsumerQueue) error {
		for _, one := range writes {
			if err := one(ctx, api, cq); err != nil {
				return err
			}
		}
		return nil
	}
}

// Create makes the ConsumerQueue, as its user does.
func Create(ctx context.Context, api client.Client, cq *v1alpha1.ConsumerQueue) error {
	return api.Create(ctx, cq)
}

// CreateEvent makes the Event that the manager records of a declaration.
func CreateEvent(ctx context.Context, api client.Client, cq *v1alpha1.ConsumerQueue) error {
	return api.Create(ctx, &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: cq.Namespace, Name: cq.Name}, EventTime: metav1.NowMicro(),
		ReportingController: "warren", ReportingInstance: "warren", Action: "Declare", Reason: "Declared", Type: corev1.EventTypeNormal,
		Note:      "declared 1 exchange, 4 queues and 1 binding",
		Regarding: corev1.ObjectReference{Kind: "ConsumerQueue", Namespace: cq.Namespace, Name: cq.Name, UID: cq.UID},
	})
}

// PatchFinalizerAndIntents is the manager's first write to a new ConsumerQueue: the finalizer, and an annotation with what is about to
// be declared.
func PatchFinalizerAndIntents(ctx context.Context, api client.Client, cq *v1alpha1.ConsumerQueue) error {
	before := cq.DeepCopy()
	controllerutil.AddFinalizer(cq, v1alpha1.TopologyFinalizer)
	if !ownership.AnnotateIntents(cq, location, statusOf(cq, "").Topology) {
		return fmt.Errorf("ConsumerQueue %q is not new", cq.Name)
	}
	return api.Patch(ctx, cq, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// UpdateStatus is the manager's second write to a new ConsumerQueue: the whole status, with all objects in sync.
func UpdateStatus(ctx context.Context, api client.Client, cq *v1alpha1.ConsumerQueue) error {
	return writeStatus(ctx, api, cq, inSync)
}

func writeStatus(ctx context.Context, api client.Client, cq *v1alpha1.ConsumerQueue, hash string) error {
	cq.Status = statusOf(cq, hash)
	cq.ManagedFields = nil // as the manager's cache has it
	return api.Status().Update(ctx, cq, owner)
}

// statusOf is the status of a ConsumerQueue whose objects were last in sync with a hash, or are yet to be declared.
func statusOf(cq *v1alpha1.ConsumerQueue, hash string) v1alpha1.ConsumerQueueStatus {
	desired, err := topology.Desired(cq, vhost.RabbitMQ43)
	if err != nil {
		panic(err) // the spec is a constant
	}
	state := v1alpha1.StateMissing
	if hash != "" {
		state = v1alpha1.StateInSync
	}
	status := v1alpha1.ConsumerQueueStatus{ObservedGeneration: 1, QueueName: cq.QueueName(), ConnectionName: cq.ConnectionName()}
	location.Record(&status)
	add := func(id vhost.ID, role v1alpha1.Role) {
		entry := topology.EntryOf(id)
		entry.Role, entry.State, entry.LastSyncedHash = role, state, hash
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
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	if hash == "" {
		const unknown = metav1.ConditionUnknown
		status.Conditions = conditionsAt(now, v1alpha1.ReasonPending, "not reconciled yet", unknown, unknown)
		return status
	}
	message := fmt.Sprintf("all %d objects are as desired", len(status.Topology))
	status.Conditions = conditionsAt(now, v1alpha1.ReasonInSync, message, metav1.ConditionTrue, metav1.ConditionFalse)
	status.LastSyncedTime = &now
	status.Messages = &v1alpha1.MessageCounts{Main: new(int64), Delayed: new(int64), DeadLettered: new(int64), AsOf: now}
	return status
}

// conditionsAt are the conditions of a ConsumerQueue: that it is Ready, and the two that say what is wrong.
func conditionsAt(now metav1.Time, reason, message string, ready, wrong metav1.ConditionStatus) []metav1.Condition {
	conditions := []metav1.Condition{
		{Type: v1alpha1.ConditionReady, Status: ready},
		{Type: v1alpha1.ConditionDrifted, Status: wrong},
		{Type: v1alpha1.ConditionRecreationRequired, Status: wrong},
	}
	for i := range conditions {
		conditions[i].Reason, conditions[i].Message, conditions[i].LastTransitionTime = reason, message, now
		conditions[i].ObservedGeneration = 1
	}
	return conditions
}
