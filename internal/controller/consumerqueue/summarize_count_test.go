package consumerqueue

import (
	"testing"

	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

func TestInSyncCountsWhatIsDesired(t *testing.T) {
	t.Parallel()
	comparison := plan.Comparison{}
	for _, hash := range []string{"one", "two", "", ""} { // an orphan and a foreign binding are not desired
		comparison.Entries = append(comparison.Entries, plan.Entry{Hash: hash})
	}
	topologytest.Equal(t, "message", "all 2 objects are as desired", inSyncMessage(comparison))
}
