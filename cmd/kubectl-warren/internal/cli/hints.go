package cli

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/jobs"
)

const (
	// unseenTime is how long Warren may take to read a new or changed job before a hint is printed.
	unseenTime = 10 * time.Second
	// silentTime is how long the status of a running job may stay unchanged. Warren writes counts every 30 s.
	silentTime = 2 * time.Minute
)

// hints describes to a waiting user what a job waits for. Each hint is printed once.
type hints struct {
	kube session
	out  io.Writer

	// version is the resource version of the job. since is when that version was first seen.
	version        string
	since          time.Time
	silent, queued bool
}

// print prints a hint if there is one.
func (h *hints) print(ctx context.Context, j jobs.Job, now time.Time) {
	if version := j.Object.GetResourceVersion(); version != h.version {
		h.version, h.since = version, now
	}
	switch {
	case j.Reason == v1alpha1.ReasonQueued && !h.queued:
		h.queued = true
		h.printRunning(ctx, j)
	case isSilent(j, now.Sub(h.since)) && !h.silent:
		h.silent = true
		h.printf("Warren has not written the status of %s %q for %s. Check that Warren is running:\n"+
			"  kubectl get pods --all-namespaces --selector messaging.warren.dev/active=true\n",
			j.Noun(), j.Name, now.Sub(h.since).Round(time.Second))
	}
}

// isSilent reports whether Warren should have updated the status of a job that has been unchanged for this long.
func isSilent(j jobs.Job, unchanged time.Duration) bool {
	if !j.IsRead {
		return unchanged >= unseenTime
	}
	return slices.Contains(working, j.Reason) && unchanged >= silentTime
}

// printRunning names the running job of the same ConsumerQueue. The waiting job's message names other blockers.
func (h *hints) printRunning(ctx context.Context, waiting jobs.Job) {
	listed, err := h.kube.jobs(ctx, false)
	if err != nil {
		return // a hint is optional
	}
	for _, other := range listed {
		isSame := other.Object.GetUID() == waiting.Object.GetUID()
		if isSame || other.ConsumerQueue != waiting.ConsumerQueue || !other.Begun || other.Outcome.IsSettled() {
			continue
		}
		h.printf("%s %q must end first (%s). To watch it, or to cancel it:\n"+
			"  kubectl warren dlq follow %s --namespace %s\n  kubectl warren dlq cancel %[4]s --namespace %[5]s\n",
			other.Noun(), other.Name, other.Counts(decimal), argumentOf(other), h.kube.namespace)
		return
	}
}

// printf prints below the line of the progress, if there is one.
func (h *hints) printf(format string, values ...any) {
	if isTerminal(h.out) {
		format = "\n" + format
	}
	printf(h.out, format, values...)
}
