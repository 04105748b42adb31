package deadletterjob

import (
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology/topologytest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWhichRedriveComesFirst(t *testing.T) {
	t.Parallel()
	begun := func(r *v1alpha1.Redrive) { r.Status.Total = new(int64(5)) }
	for name, test := range map[string]struct {
		one, other *v1alpha1.Redrive
		want       bool
	}{
		"the older Redrive": {redriveOf("b", 1, nil), redriveOf("a", 2, nil), true},
		"the first name, if both were created in the same second": {redriveOf("a", 1, nil), redriveOf("b", 1, nil), true},
		"a Redrive that has begun":                                {redriveOf("b", 2, begun), redriveOf("a", 1, nil), true},
		"the older Redrive, if both have begun":                   {redriveOf("b", 1, begun), redriveOf("a", 2, begun), true},
		"no Redrive comes before itself":                          {redriveOf("a", 1, nil), redriveOf("a", 1, nil), false},
	} {
		topologytest.Equal(t, name, test.want, isBefore(ofRedrive(test.one), ofRedrive(test.other)))
		if test.want {
			topologytest.Equal(t, name+", with the arguments swapped", false, isBefore(ofRedrive(test.other), ofRedrive(test.one)))
		}
	}
}

func TestWantsTurn(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	condition := func(name string) func(*v1alpha1.Redrive) {
		return func(r *v1alpha1.Redrive) {
			r.Status.Conditions = []metav1.Condition{{Type: name, Status: metav1.ConditionTrue}}
		}
	}
	for name, test := range map[string]struct {
		change func(*v1alpha1.Redrive)
		want   bool
	}{
		"a new Redrive":       {nil, true},
		"a waiting Redrive":   {condition(v1alpha1.ConditionReconciling), true},
		"a finished Redrive":  {func(r *v1alpha1.Redrive) { r.Status.CompletionTime = &now }, false},
		"a deleted Redrive":   {func(r *v1alpha1.Redrive) { r.DeletionTimestamp = &now }, false},
		"spec.suspend is set": {func(r *v1alpha1.Redrive) { r.Spec.Suspend = true }, false},
		"a suspended Redrive": {condition(v1alpha1.ConditionSuspended), false},
		"a stalled Redrive":   {condition(v1alpha1.ConditionStalled), false},
	} {
		topologytest.Equal(t, name, test.want, wantsTurn(ofRedrive(redriveOf("a", 1, test.change))))
	}
}
