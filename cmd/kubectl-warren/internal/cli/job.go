package cli

import (
	"context"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/jobs"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/printable"
)

// argumentOf returns the name of a job for `dlq follow` and `dlq cancel`.
func argumentOf(j jobs.Job) string {
	if j.Kind == jobs.Purge {
		return "purge/" + j.Name
	}
	return j.Name
}

// readyText returns the reason and message of the condition Ready, in one line.
func readyText(j jobs.Job) string {
	if j.Reason == "" {
		return "Pending"
	}
	return printable.Text(j.Reason + ": " + j.Message)
}

func (s session) read(ctx context.Context, j jobs.Job) (jobs.Job, error) {
	now := j.Kind.Empty()
	err := s.Get(ctx, client.ObjectKeyFromObject(j.Object), now)
	return jobs.Of(now), err
}

// pollInterval is how often a waiting command reads a job. Warren writes the status every 5 s at most.
const pollInterval = 500 * time.Millisecond

// await reads a job repeatedly until wanted returns true, and returns the job. It returns nil if the command is stopped first. If
// the API server does not answer, it prints that once.
func (s session) await(ctx context.Context, j jobs.Job, wanted func(jobs.Job) bool, errOut io.Writer) (*jobs.Job, error) {
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
			return &now, nil
		case err == nil:
			cut = false
			hints.print(ctx, now, time.Now())
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
