package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/jobs"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/printable"
)

// job is a Redrive or a Purge: Warren carries out either once, and a command waits for the end.
type job interface {
	// object is the Redrive or the Purge itself.
	object() client.Object
	// fresh is an empty job of the same kind.
	fresh() job
	// kind is Redrive or Purge.
	kind() string
	// argument is what `dlq follow` and `dlq cancel` take.
	argument() string
	consumerQueue() string
	requestedBy() string
	status() *v1alpha1.TransferStatus
	// counts says how far the job is; only where the total is known.
	counts() string
	pace() pace
	// remarks are what there is to say at the end besides the message.
	remarks() []string
}

// pace is how far a job is, to guess how long the job will take.
type pace struct {
	// begun says that messages are being moved or deleted.
	begun      bool
	done, left int64
}

// outcomeOf is how far a job is.
func outcomeOf(j job) jobs.Outcome { return jobs.OutcomeOf(j.object()) }

// readyOf is the condition Ready of a job; nil while there is none.
func readyOf(j job) *metav1.Condition {
	return meta.FindStatusCondition(j.status().Conditions, v1alpha1.ConditionReady)
}

// readyText is why a job is Ready or not, with the message, in one line.
func readyText(j job) string {
	ready := readyOf(j)
	if ready == nil {
		return "Pending"
	}
	return printable.Text(ready.Reason + ": " + ready.Message)
}

// doneText is how many messages a job moved or deleted. After a crash, a job that has ended knows only a range.
func doneText(j job, done *int64) string {
	if atMost := number(j.status().AtMost); outcomeOf(j).Ended() && atMost > number(done) {
		return fmt.Sprintf("%d to %d", number(done), atMost)
	}
	return decimal(number(done))
}

func messageOf(j job) string {
	ready := readyOf(j)
	if ready == nil {
		return ""
	}
	return printable.Text(ready.Message)
}

// read reads a job again.
func (s session) read(ctx context.Context, j job) (job, error) {
	now := j.fresh()
	return now, s.Get(ctx, client.ObjectKeyFromObject(j.object()), now.object())
}

// pollInterval is how often a job is read while a command waits for the job. Warren writes the status every 5 s at most.
const pollInterval = 500 * time.Millisecond

// await reads a job again and again until the job is as wanted, and returns the job; nil if the command is stopped before. That the API
// server does not answer for a while is said once.
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
			printf(errOut, "The API server does not answer, trying again: %v\n", err)
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-ticker.C:
		}
	}
}

func number(field *int64) int64 {
	if field == nil {
		return 0
	}
	return *field
}
