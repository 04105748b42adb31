package deadletterjob

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// statusWith returns the status of a job whose Ready is False with this reason.
func statusWith(reason string, ended bool) v1alpha1.JobStatus {
	status := v1alpha1.JobStatus{Conditions: []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: "the broker says no",
	}}}
	if ended {
		status.CompletionTime = new(metav1.Unix(1, 0))
	}
	return status
}

func redriveFrom(of, to string, status v1alpha1.JobStatus) *v1alpha1.Redrive {
	redrive := &v1alpha1.Redrive{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "again"}}
	redrive.Spec.ConsumerQueueRef.Name, redrive.Status.JobStatus = of, status
	if to != "" {
		redrive.Spec.Destination = &v1alpha1.RedriveDestination{ConsumerQueueRef: &v1alpha1.LocalObjectReference{Name: to}}
	}
	return redrive
}

func purgeFrom(of string, status v1alpha1.JobStatus) *v1alpha1.Purge {
	purge := &v1alpha1.Purge{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "away"}}
	purge.Spec.ConsumerQueueRef.Name, purge.Status.JobStatus = of, status
	return purge
}

func TestRefusal(t *testing.T) {
	t.Parallel()
	refused, ended := statusWith(v1alpha1.ReasonPermissionDenied, false), statusWith(v1alpha1.ReasonPermissionDenied, true)
	for name, test := range map[string]struct {
		object client.Object
		want   string
	}{
		"a refused Redrive":                                      {redriveFrom("orders", "", refused), "the broker says no"},
		"a refused Purge":                                        {purgeFrom("orders", refused), "the broker says no"},
		"a waiting Redrive":                                      {redriveFrom("orders", "", statusWith(v1alpha1.ReasonConnectionNotReady, false)), ""},
		"a refused Redrive that has ended":                       {redriveFrom("orders", "", ended), ""},
		"a refused Redrive of another ConsumerQueue":             {redriveFrom("invoices", "", refused), ""},
		"a refused Redrive of another ConsumerQueue to this one": {redriveFrom("invoices", "orders", refused), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reader := controllertest.Client(t, []controllertest.AddIndexes{AddIndexes}, test.object)
			got, err := Refusal(t.Context(), reader, client.ObjectKey{Namespace: "shop", Name: "orders"})
			topologytest.Equal(t, "error", nil, err)
			topologytest.Equal(t, "refusal", test.want, got)
		})
	}
}

// A cache lists objects in any order. If any refused job gave the message, the advisory would change again and again.
func TestRefusalOfTheFirstJob(t *testing.T) {
	t.Parallel()
	var objects []client.Object
	for i, name := range []string{"first", "another", "third"} {
		status := statusWith(v1alpha1.ReasonPermissionDenied, false)
		status.Conditions[0].Message = name
		objects = append(objects, created(redriveFrom("orders", "", status), name, i))
	}
	reader := controllertest.Client(t, []controllertest.AddIndexes{AddIndexes}, objects...)
	for _, ordered := range []client.Reader{reader, backwards{reader}} {
		got, err := Refusal(t.Context(), ordered, client.ObjectKey{Namespace: "shop", Name: "orders"})
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "refusal", "first", got)
	}
}

func TestRefusalChanged(t *testing.T) {
	t.Parallel()
	refused, moving := redriveFrom("orders", "", statusWith(v1alpha1.ReasonPermissionDenied, false)), redriveFrom("orders", "", statusWith(v1alpha1.ReasonMoving, false))
	passes := RefusalChanged()
	for name, test := range map[string]struct{ got, want bool }{
		"a job becomes refused":               {passes.Update(event.UpdateEvent{ObjectOld: moving, ObjectNew: refused}), true},
		"a refused job continues":             {passes.Update(event.UpdateEvent{ObjectOld: refused, ObjectNew: moving}), true},
		"a refused job remains refused":       {passes.Update(event.UpdateEvent{ObjectOld: refused, ObjectNew: refused}), false},
		"a running job continues":             {passes.Update(event.UpdateEvent{ObjectOld: moving, ObjectNew: moving}), false},
		"a refused job is deleted":            {passes.Delete(event.DeleteEvent{Object: refused}), true},
		"a running job is deleted":            {passes.Delete(event.DeleteEvent{Object: moving}), false},
		"a refused job is found at the start": {passes.Create(event.CreateEvent{Object: refused}), true},
		"a job is created":                    {passes.Create(event.CreateEvent{Object: purgeFrom("orders", v1alpha1.JobStatus{})}), false},
	} {
		if test.got != test.want {
			t.Errorf("%s: passes %t, want %t", name, test.got, test.want)
		}
	}
	topologytest.Equal(t, "ConsumerQueue of a Redrive", client.ObjectKey{Namespace: "shop", Name: "orders"}, ConsumerQueueOf(refused))
	topologytest.Equal(t, "ConsumerQueue of a Purge", client.ObjectKey{Namespace: "shop", Name: "bills"}, ConsumerQueueOf(purgeFrom("bills", v1alpha1.JobStatus{})))
}
