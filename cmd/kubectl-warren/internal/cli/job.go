package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/jobs"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/printable"
)

// job is a Redrive or a Purge.
type job interface {
	// object is the Redrive or the Purge itself.
	object() client.Object
	// fresh returns an empty job of the same kind.
	fresh() job
	kind() string
	// argument is the job's name for `dlq follow` and `dlq cancel`.
	argument() string
	consumerQueue() string
	requestedBy() string
	status() *v1alpha1.TransferStatus
	// counts describes the progress. It is valid only if the total is known.
	counts() string
	pace() pace
	// remarks are further lines about the outcome.
	remarks() []string
}

// pace is the progress of a job in numbers, for an estimate of the remaining time.
type pace struct {
	// begun is true once messages are moved or deleted.
	begun      bool
	done, left int64
}

func outcomeOf(j job) jobs.Outcome { return jobs.OutcomeOf(j.object()) }

// readyOf returns the condition Ready of a job; nil if there is none.
func readyOf(j job) *metav1.Condition {
	return meta.FindStatusCondition(j.status().Conditions, v1alpha1.ConditionReady)
}

// readyText returns the reason and message of the condition Ready, in one line.
func readyText(j job) string {
	ready := readyOf(j)
	if ready == nil {
		return "Pending"
	}
	return printable.Text(ready.Reason + ": " + ready.Message)
}

func doneText(j job, done *int64) string {
	return jobs.DoneText(outcomeOf(j), ptr.Deref(done, 0), ptr.Deref(j.status().AtMost, 0), decimal)
}

// skippedText counts the messages that stay; it is empty if there are none. Subtracting the moved messages from the examined ones would
// also count messages whose removal the broker has not confirmed yet.
func skippedText(j job) string {
	skipped := int64(0)
	for _, count := range j.status().Skipped {
		skipped += count
	}
	if skipped == 0 {
		return ""
	}
	return fmt.Sprintf(", %d skipped", skipped)
}

func messageOf(j job) string {
	ready := readyOf(j)
	if ready == nil {
		return ""
	}
	return printable.Text(ready.Message)
}

func (s session) read(ctx context.Context, j job) (job, error) {
	now := j.fresh()
	return now, s.Get(ctx, client.ObjectKeyFromObject(j.object()), now.object())
}

// pollInterval is how often a waiting command reads a job. Warren writes the status every 5 s at most.
const pollInterval = 500 * time.Millisecond

// await reads a job repeatedly until wanted returns true, and returns the job. It returns nil if the command is stopped first. If
// the API server does not answer, it prints that once.
func (s session) await(ctx context.Context, j job, wanted func(job) bool, errOut io.Writer) (job, error) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	cut := false
	hints := hints{kube: s, out: errOut}
	for {
		now, err := s.read(ctx, j)
		switch {
		case ctx.Err() != nil:
			return nil, nil
		case err == nil && wanted(now):
			return now, nil
		case err == nil:
			cut = false
			hints.tell(ctx, now, time.Now())
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return nil, err
		case !cut:
			cut = true
			printf(errOut, "The API server does not answer, retrying: %v\n", err)
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-ticker.C:
		}
	}
}
