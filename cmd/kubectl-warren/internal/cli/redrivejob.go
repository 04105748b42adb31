package cli

import (
	"fmt"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
)

type redriveJob struct{ redrive *v1alpha1.Redrive }

func (r redriveJob) object() client.Object            { return r.redrive }
func (r redriveJob) fresh() job                       { return redriveJob{&v1alpha1.Redrive{}} }
func (r redriveJob) kind() string                     { return "Redrive" }
func (r redriveJob) argument() string                 { return r.redrive.Name }
func (r redriveJob) consumerQueue() string            { return r.redrive.Spec.ConsumerQueueRef.Name }
func (r redriveJob) requestedBy() string              { return r.redrive.Spec.RequestedBy }
func (r redriveJob) status() *v1alpha1.TransferStatus { return &r.redrive.Status.TransferStatus }

func (r redriveJob) counts() string {
	status := r.redrive.Status
	line := fmt.Sprintf("%s of %d moved", doneText(r, status.Moved), ptr.Deref(status.Total, 0))
	if r.redrive.Spec.DryRun {
		line = fmt.Sprintf("%d of %d examined", ptr.Deref(status.Examined, 0), ptr.Deref(status.Total, 0))
	}
	line += skippedText(r)
	if count := ptr.Deref(status.Failed, 0); count > 0 {
		line += fmt.Sprintf(", %d failed", count)
	}
	return line
}

func (r redriveJob) pace() pace {
	status := r.redrive.Status
	left := ptr.Deref(status.Total, 0) - ptr.Deref(status.Examined, 0)
	return pace{begun: status.Total != nil, done: ptr.Deref(status.Moved, 0), left: left}
}

func (r redriveJob) remarks() []string {
	failures := r.redrive.Status.Failures
	remarks := make([]string, len(failures))
	for i, failure := range failures {
		remarks[i] = fmt.Sprintf("message %s stays: %s: %s", failure.ID, failure.Reason, failure.Message)
	}
	return remarks
}
