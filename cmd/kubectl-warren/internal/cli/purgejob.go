package cli

import (
	"fmt"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
)

type purgeJob struct{ purge *v1alpha1.Purge }

func (p purgeJob) object() client.Object            { return p.purge }
func (p purgeJob) fresh() job                       { return purgeJob{&v1alpha1.Purge{}} }
func (p purgeJob) kind() string                     { return "Purge" }
func (p purgeJob) argument() string                 { return "purge/" + p.purge.Name }
func (p purgeJob) consumerQueue() string            { return p.purge.Spec.ConsumerQueueRef.Name }
func (p purgeJob) requestedBy() string              { return p.purge.Spec.RequestedBy }
func (p purgeJob) status() *v1alpha1.TransferStatus { return &p.purge.Status.TransferStatus }
func (p purgeJob) remarks() []string                { return nil }

// counts describes how many messages were examined, and after the count, how many of the matching ones were deleted.
func (p purgeJob) counts() string {
	status := p.purge.Status
	line := fmt.Sprintf("%d of %d examined", ptr.Deref(status.Examined, 0), ptr.Deref(status.Total, 0))
	if status.Matched != nil && !p.purge.Spec.DryRun {
		line = fmt.Sprintf("%s of %d deleted", doneText(p, status.Deleted), *status.Matched)
	}
	return line + skippedText(p)
}

func (p purgeJob) pace() pace {
	status := p.purge.Status
	return pace{
		begun: status.Matched != nil, done: ptr.Deref(status.Deleted, 0), left: ptr.Deref(status.Matched, 0) - ptr.Deref(status.Deleted, 0),
	}
}
