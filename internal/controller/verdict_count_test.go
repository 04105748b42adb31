package controller

import (
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
)

func TestInSyncCountsWhatIsDesired(t *testing.T) {
	t.Parallel()
	states := []v1alpha1.ObjectState{v1alpha1.StateInSync, v1alpha1.StateInSync, v1alpha1.StateOrphaned, v1alpha1.StateForeign}
	comparison := topology.Comparison{}
	for _, state := range states {
		comparison.Entries = append(comparison.Entries, v1alpha1.TopologyEntry{Kind: v1alpha1.KindQueue, State: state})
	}
	equal(t, "message", "all 2 objects are as desired", inSyncMessage(comparison))
}
