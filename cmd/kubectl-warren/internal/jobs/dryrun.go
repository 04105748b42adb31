// Package jobs describes Redrives and Purges for the commands and the pages: retention, dry runs, outcomes and texts. It does no
// I/O.
package jobs

import (
	"math"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// KeepSeconds is how long an ended Redrive or Purge is retained, as a record of what was moved or deleted.
const KeepSeconds = int32(24 * 60 * 60)

// keepDryRun is how many seconds a dry run is retained if the command fails to delete it.
const keepDryRun = int32(10 * 60)

// MakeDryRun turns a Redrive or Purge into a dry run that counts all matching messages, whatever the limit.
func MakeDryRun(object client.Object) {
	object.SetGenerateName(object.GetGenerateName() + "count-")
	switch object := object.(type) {
	case *v1alpha1.Redrive:
		object.Spec.DryRun, object.Spec.MaxMessages, object.Spec.TTLSecondsAfterFinished = true, nil, new(keepDryRun)
	case *v1alpha1.Purge:
		object.Spec.DryRun, object.Spec.ExpectedAtMost, object.Spec.TTLSecondsAfterFinished = true, math.MaxInt32, new(keepDryRun)
	}
}
