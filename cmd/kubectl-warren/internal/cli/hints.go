package cli

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/warren-mq/warren/api/v1alpha1"
)

const (
	// unseenTime is for how long the operator may take to read a new or changed job until the user is asked whether it runs.
	unseenTime = 10 * time.Second
	// silentTime is for how long the status of a job that takes messages may stay the same. The operator writes counts every 30 s.
	silentTime = 2 * time.Minute
)

// hints tells a user who waits for a job what the job waits for. Each hint is printed once.
type hints struct {
	kube session
	out  io.Writer

	// version is the resource version of the job, and since when it is that.
	version        string
	since          time.Time
	silent, queued bool
}

// tell prints a hint if there is one.
func (h *hints) tell(ctx context.Context, j job, now time.Time) {
	if version := j.object().GetResourceVersion(); version != h.version {
		h.version, h.since = version, now
	}
	ready := readyOf(j)
	switch {
	case ready != nil && ready.Reason == v1alpha1.ReasonQueued && !h.queued:
		h.queued = true
		h.tellRunning(ctx, j)
	case isSilent(j, now.Sub(h.since)) && !h.silent:
		h.silent = true
		h.printf("Warren has not written the status of %s %q for %s. Is the operator running?\n"+
			"  kubectl get pods --all-namespaces --selector messaging.warren.dev/active=true\n",
			j.kind(), j.object().GetName(), now.Sub(h.since).Round(time.Second))
	}
}

// isSilent reports whether the operator should have written the status of a job by now, which has not changed for so long.
func isSilent(j job, unchanged time.Duration) bool {
	if j.status().ObservedGeneration < j.object().GetGeneration() {
		return unchanged >= unseenTime
	}
	ready := readyOf(j)
	return ready != nil && slices.Contains(working, ready.Reason) && unchanged >= silentTime
}

// tellRunning names the job that takes messages of the same ConsumerQueue. The reason of the job that waits names others.
func (h *hints) tellRunning(ctx context.Context, waiting job) {
	listed, err := h.kube.jobs(ctx, false)
	if err != nil {
		return // the job waits whether or not the user knows for which other job
	}
	for _, other := range listed {
		isSame := other.object().GetUID() == waiting.object().GetUID()
		if isSame || other.consumerQueue() != waiting.consumerQueue() || other.status().Total == nil || outcomeOf(other).IsOver() {
			continue
		}
		h.printf("%s %q has to end first (%s). To see its progress, or to end it:\n"+
			"  kubectl warren dlq follow %s --namespace %s\n  kubectl warren dlq cancel %[4]s --namespace %[5]s\n",
			other.kind(), other.object().GetName(), other.counts(), other.argument(), h.kube.namespace)
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
