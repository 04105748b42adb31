package jobs

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// A dry run counts all matching messages, even above the limit, and is retained only briefly in case its deletion fails.
func TestMakeDryRun(t *testing.T) {
	t.Parallel()
	named, counting := metav1.ObjectMeta{GenerateName: "orders-"}, metav1.ObjectMeta{GenerateName: "orders-count-"}
	redrive := &v1alpha1.Redrive{ObjectMeta: named, Spec: v1alpha1.RedriveSpec{MaxMessages: new(int32(3)), Reason: "r"}}
	MakeDryRun(redrive)
	if difference := cmp.Diff(&v1alpha1.Redrive{ObjectMeta: counting, Spec: v1alpha1.RedriveSpec{
		DryRun: true, Reason: "r", TTLSecondsAfterFinished: new(int32(600)),
	}}, redrive); difference != "" {
		t.Errorf("Redrive (-want +got):\n%s", difference)
	}
	purge := &v1alpha1.Purge{ObjectMeta: named, Spec: v1alpha1.PurgeSpec{ExpectedAtMost: 3, Reason: "r"}}
	MakeDryRun(purge)
	if difference := cmp.Diff(&v1alpha1.Purge{ObjectMeta: counting, Spec: v1alpha1.PurgeSpec{
		DryRun: true, ExpectedAtMost: math.MaxInt32, Reason: "r", TTLSecondsAfterFinished: new(int32(600)),
	}}, purge); difference != "" {
		t.Errorf("Purge (-want +got):\n%s", difference)
	}
}
