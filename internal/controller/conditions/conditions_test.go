package conditions

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// Reconciling and Stalled exist only while True, never both, and have Ready's reason and message. Each condition has
// observedGeneration. Suspended leaves the other conditions as they are.
func TestConditionWriter(t *testing.T) {
	t.Parallel()
	condition := func(name string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: name, Status: status, Reason: "Old", Message: "old", ObservedGeneration: 1}
	}
	var (
		ready       = condition(v1alpha1.ConditionReady, "True")
		drifted     = condition(v1alpha1.ConditionDrifted, "False")
		recreation  = condition(v1alpha1.ConditionRecreationRequired, "False")
		reconciles  = condition(v1alpha1.ConditionReconciling, "True")
		stalls      = condition(v1alpha1.ConditionStalled, "True")
		suspended   = condition(v1alpha1.ConditionSuspended, "True")
		keptDrifted = `Drifted=False Old "old", 1`
	)
	for name, test := range map[string]struct {
		before []metav1.Condition
		write  func(w Writer)
		want   []string
	}{
		"ready": {
			before: []metav1.Condition{drifted, reconciles, stalls},
			write:  func(w Writer) { w.SetReady(True("Why", "because"), ProgressNone) },
			want:   []string{keptDrifted, `Ready=True Why "because", 2`},
		},
		"reconciling replaces stalled": {
			before: []metav1.Condition{ready, stalls},
			write:  func(w Writer) { w.SetReady(Unknown("Why", "because"), Reconciling) },
			want:   []string{`Ready=Unknown Why "because", 2`, `Reconciling=True Why "because", 2`},
		},
		"stalled replaces reconciling": {
			before: []metav1.Condition{ready, reconciles},
			write:  func(w Writer) { w.SetReady(False("Why", "because"), Stalled) },
			want:   []string{`Ready=False Why "because", 2`, `Stalled=True Why "because", 2`},
		},
		"keep changes only observedGeneration": {
			before: []metav1.Condition{ready, drifted},
			write:  func(w Writer) { w.Keep(v1alpha1.ConditionReady) },
			want:   []string{`Ready=True Old "old", 2`, keptDrifted},
		},
		"keep adds no condition": {
			write: func(w Writer) { w.Keep(v1alpha1.ConditionReady) },
			want:  []string{},
		},
		"suspended": {
			before: []metav1.Condition{ready, drifted, recreation, reconciles},
			write:  func(w Writer) { w.SetSuspended("spec.suspend is set") },
			want: []string{
				`Ready=True Old "old", 2`, `Drifted=False Old "old", 2`, `RecreationRequired=False Old "old", 2`,
				`Suspended=True Suspended "spec.suspend is set", 2`,
			},
		},
		"suspended while stalled": {
			before: []metav1.Condition{ready, stalls},
			write:  func(w Writer) { w.SetSuspended("spec.suspend is set") },
			want:   []string{`Ready=True Old "old", 2`, `Suspended=True Suspended "spec.suspend is set", 2`},
		},
		"resumed": {
			before: []metav1.Condition{ready, suspended},
			write:  func(w Writer) { w.ClearSuspended() },
			want:   []string{`Ready=True Old "old", 1`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conditions := append([]metav1.Condition(nil), test.before...)
			test.write(Writer{&conditions, 2})
			topologytest.Equal(t, "conditions", test.want, controllertest.Lines(conditions), controllertest.AnyOrder)
		})
	}
}

func TestConditionTransitionTimes(t *testing.T) {
	t.Parallel()
	long := metav1.NewTime(time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC))
	conditions := []metav1.Condition{
		{Type: v1alpha1.ConditionReady, Status: "False", Reason: "Old", LastTransitionTime: long},
		{Type: v1alpha1.ConditionReconciling, Status: "True", Reason: "Old", LastTransitionTime: long},
	}
	writer := Writer{&conditions, 2}
	writer.SetReady(False("New", "another reason, the same status"), Reconciling)
	for _, condition := range conditions {
		topologytest.Equal(t, "time of "+condition.Type, long, condition.LastTransitionTime)
		topologytest.Equal(t, "reason of "+condition.Type, "New", condition.Reason)
	}
	writer.Keep(v1alpha1.ConditionReady)
	topologytest.Equal(t, "time after keep", long, conditions[0].LastTransitionTime)
	writer.SetReady(True("Newer", "another status"), ProgressNone)
	topologytest.Equal(t, "conditions", []string{`Ready=True Newer "another status", 2`}, controllertest.Lines(conditions))
	if !conditions[0].LastTransitionTime.After(long.Time) {
		t.Errorf("lastTransitionTime did not change: %v", conditions[0].LastTransitionTime)
	}
}

// A truncated message must read back as it was written. Otherwise every reconciliation would write the status again.
func TestLongConditionMessage(t *testing.T) {
	t.Parallel()
	for offset := range 3 {
		var conditions []metav1.Condition
		message := strings.Repeat("x", offset) + strings.Repeat("ä", 20000)
		Writer{&conditions, 1}.Set(v1alpha1.ConditionReady, True("Why", message))
		got := conditions[0].Message
		if !utf8.ValidString(got) || len(got) > 8192 || len(got) < 8188 || !strings.HasSuffix(got, "ä…") {
			t.Errorf("%d bytes, ending in %q", len(got), got[len(got)-8:])
		}
	}
}
