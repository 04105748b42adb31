// Package jobs has what the command line and the page share about Redrives and Purges: how long they are kept, dry runs, and how far they
// are. It does no I/O.
package jobs

import (
	"math"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// KeepSeconds is for how long a Redrive or a Purge is kept after it has ended: what was moved or deleted is on record for a day.
const KeepSeconds = int32(24 * 60 * 60)

// keepDryRun is for how long a dry run is kept, in seconds. It is deleted at once, and the time is for when that fails.
const keepDryRun = int32(10 * 60)

// MakeDryRun makes a Redrive or a Purge one that counts all messages that match, whatever the limit.
func MakeDryRun(object client.Object) {
	object.SetGenerateName(object.GetGenerateName() + "count-")
	switch object := object.(type) {
	case *v1alpha1.Redrive:
		object.Spec.DryRun, object.Spec.MaxMessages, object.Spec.TTLSecondsAfterFinished = true, nil, new(keepDryRun)
	case *v1alpha1.Purge:
		object.Spec.DryRun, object.Spec.ExpectedAtMost, object.Spec.TTLSecondsAfterFinished = true, math.MaxInt32, new(keepDryRun)
	}
}
