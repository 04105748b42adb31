package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// stage is how far a Redrive is.
type stage string

const (
	goesOn    stage = "goes on"
	completed stage = "completed"
	cancelled stage = "cancelled"
	failed    stage = "failed"
	// stalled: the Redrive moves nothing until somebody mends something.
	stalled stage = "stalled"
)

func (s stage) ended() bool { return s == completed || s == cancelled || s == failed }

func stageOf(redrive *v1alpha1.Redrive) stage {
	conditions := redrive.Status.Conditions
	ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	switch {
	case redrive.Status.CompletionTime == nil && meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionStalled):
		return stalled
	case redrive.Status.CompletionTime == nil || ready == nil:
		return goesOn
	case ready.Reason == v1alpha1.ReasonCancelled:
		return cancelled
	case meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionReady):
		return completed
	}
	return failed
}

// readyText is why a Redrive is Ready or not, with the message.
func readyText(redrive *v1alpha1.Redrive) string {
	ready := meta.FindStatusCondition(redrive.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil {
		return "Pending"
	}
	return ready.Reason + ": " + ready.Message
}

// await reads a Redrive again and again until it is as wanted, and returns it; nil if the command is stopped before. That the API server
// does not answer for a while is said once.
func (s session) await(ctx context.Context, name string, wanted func(*v1alpha1.Redrive) bool, errOut io.Writer) (*v1alpha1.Redrive, error) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	cut := false
	for {
		redrive, err := s.redrive(ctx, name)
		switch {
		case ctx.Err() != nil:
			return nil, nil
		case err == nil && wanted(redrive):
			return redrive, nil
		case err == nil:
			cut = false
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

// follow prints how a Redrive fares until it has ended, and returns it; nil if the command is stopped before.
func follow(ctx context.Context, kube session, streams genericiooptions.IOStreams, name string) (*v1alpha1.Redrive, error) {
	progress := &progress{out: streams.ErrOut, terminal: isTerminal(streams.ErrOut)}
	last, err := kube.await(ctx, name, func(now *v1alpha1.Redrive) bool {
		progress.show(now, time.Now())
		stage := stageOf(now)
		return stage.ended() || stage == stalled
	}, streams.ErrOut)
	progress.end()
	if err != nil {
		return nil, err
	}
	if last == nil {
		printf(streams.ErrOut, "Redrive %q goes on without this command. To see how it fares, or to end it:\n"+
			"  kubectl warren dlq follow %s --namespace %s\n  kubectl warren dlq cancel %s --namespace %s\n",
			name, name, kube.namespace, name, kube.namespace)
		return nil, nil
	}
	return last, sayEnd(streams, last)
}

// sayEnd prints how a Redrive has ended. Its error has the exit code.
func sayEnd(streams genericiooptions.IOStreams, redrive *v1alpha1.Redrive) error {
	printf(streams.Out, "Redrive %s: %s\n", redrive.Name, readyText(redrive))
	for _, failure := range redrive.Status.Failures {
		printf(streams.Out, "  message %s stays: %s: %s\n", failure.ID, failure.Reason, failure.Message)
	}
	switch stageOf(redrive) {
	case cancelled:
		return &exit{code: exitCancelled}
	case failed:
		return &exit{code: exitFailed}
	case stalled:
		printf(streams.ErrOut, "It goes on by itself when that is mended. To end it: kubectl warren dlq cancel %s --namespace %s\n",
			redrive.Name, redrive.Namespace)
		return &exit{code: exitFailed}
	}
	return nil
}

// progress prints how a Redrive fares: on a terminal in one line, elsewhere a line for each change.
type progress struct {
	out      io.Writer
	terminal bool
	last     string
	// begun and from are when messages were first seen to be moved, and how many had been by then.
	begun time.Time
	from  int64
}

// newFor is for how long nothing is said of a Redrive that the operator has not begun with: usually that takes a moment.
const newFor = 3 * time.Second

func (p *progress) show(redrive *v1alpha1.Redrive, now time.Time) {
	moved := number(redrive.Status.Moved)
	if p.begun.IsZero() && redrive.Status.Total != nil {
		p.begun, p.from = now, moved
	}
	line := progressText(redrive)
	isNew := redrive.Status.Total == nil && now.Sub(redrive.CreationTimestamp.Time) < newFor
	if line == p.last || isNew {
		return
	}
	p.last = line
	if !p.terminal {
		printf(p.out, "%s\n", line)
		return
	}
	printf(p.out, "\r\x1b[K%s%s", line, remaining(redrive, moved-p.from, now.Sub(p.begun)))
}

func (p *progress) end() {
	if p.terminal && p.last != "" {
		printf(p.out, "\n")
	}
}

func progressText(redrive *v1alpha1.Redrive) string {
	status := redrive.Status
	if status.Total == nil {
		return readyText(redrive)
	}
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	line := fmt.Sprintf("%d of %d moved", number(status.Moved), *status.Total)
	if redrive.Spec.DryRun != nil && *redrive.Spec.DryRun {
		line = fmt.Sprintf("%d of %d looked at", number(status.Examined), *status.Total)
	}
	if left := number(status.Examined) - number(status.Moved) - number(status.Failed); left > 0 {
		line += fmt.Sprintf(", %d skipped", left)
	}
	if count := number(status.Failed); count > 0 {
		line += fmt.Sprintf(", %d failed", count)
	}
	if ready != nil && ready.Reason != v1alpha1.ReasonMoving && !stageOf(redrive).ended() {
		line += ", " + readyText(redrive)
	}
	return line
}

// remaining guesses how long a Redrive will take, from what was moved in a while.
func remaining(redrive *v1alpha1.Redrive, moved int64, within time.Duration) string {
	left := number(redrive.Status.Total) - number(redrive.Status.Examined)
	if moved <= 0 || left <= 0 || within <= 0 {
		return ""
	}
	return fmt.Sprintf(", about %s left", (time.Duration(left) * within / time.Duration(moved)).Round(time.Second))
}

func number(field *int64) int64 {
	if field == nil {
		return 0
	}
	return *field
}
