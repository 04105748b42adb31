package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/jobs"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/printable"
)

// follow prints the progress of a job until it ends, and returns the job. If the command is stopped first, it returns no job, and the
// error has the exit code.
func follow(ctx context.Context, kube session, streams genericiooptions.IOStreams, j jobs.Job) (*jobs.Job, error) {
	progress := &progress{out: streams.ErrOut, terminal: isTerminal(streams.ErrOut)}
	last, err := kube.await(ctx, j, func(now jobs.Job) bool {
		progress.show(now, time.Now())
		return now.Outcome.IsSettled()
	}, streams.ErrOut)
	progress.end()
	if err != nil {
		return nil, err
	}
	if last == nil {
		printf(streams.ErrOut, "%s %q continues without this command. To watch it, or to cancel it:\n"+
			"  kubectl warren dlq follow %s --namespace %s\n  kubectl warren dlq cancel %s --namespace %s\n",
			j.Noun(), j.Name, argumentOf(j), kube.namespace, argumentOf(j), kube.namespace)
		return nil, &exit{code: exitStopped}
	}
	return last, sayEnd(streams, *last)
}

// sayEnd prints the outcome of a job. The error has the exit code.
func sayEnd(streams genericiooptions.IOStreams, j jobs.Job) error {
	printf(streams.Out, "%s %s: %s\n", j.Noun(), j.Name, readyText(j))
	for _, failure := range j.Failures {
		text := fmt.Sprintf("message %s remains in the dead-letter queue (%s): %s", failure.ID, failure.Reason, failure.Message)
		printf(streams.Out, "  %s\n", printable.Text(text))
	}
	switch j.Outcome {
	case jobs.Incomplete:
		return &exit{code: exitIncomplete}
	case jobs.Cancelled:
		return &exit{code: exitCancelled}
	case jobs.Failed:
		return &exit{code: exitFailed}
	case jobs.Stalled:
		printf(streams.ErrOut, "The %s continues by itself once you fix the cause. To cancel it: "+
			"kubectl warren dlq cancel %s --namespace %s\n", j.Noun(), argumentOf(j), j.Namespace)
		return &exit{code: exitFailed}
	}
	return nil
}

// progress prints the progress of a job: on a terminal in one line, otherwise one line per change.
type progress struct {
	out      io.Writer
	terminal bool
	last     string
	// begun is when the first moved or deleted messages were seen, and from is their number at that time.
	begun time.Time
	from  int64
}

// newFor is how long follow prints nothing about a job that Warren has not started. A job usually starts within a moment.
const newFor = 3 * time.Second

func (p *progress) show(j jobs.Job, now time.Time) {
	done, left, begun := j.Pace()
	if p.begun.IsZero() && begun {
		p.begun, p.from = now, done
	}
	line := printable.Text(progressText(j))
	isNew := !j.Begun && now.Sub(j.Created) < newFor
	if line == p.last || isNew {
		return
	}
	p.last = line
	if !p.terminal {
		printf(p.out, "%s\n", line)
		return
	}
	line += remaining(done-p.from, left, now.Sub(p.begun))
	_, _ = fmt.Fprintf(p.out, "\r\x1b[K%s", cut(line, widthOf(p.out)-1)) // a wrapped line could not be erased
}

func cut(line string, width int) string {
	characters := []rune(line)
	if len(characters) <= width {
		return line
	}
	return string(characters[:max(width-1, 0)]) + "…"
}

func (p *progress) end() {
	if p.terminal && p.last != "" {
		printf(p.out, "\n")
	}
}

// working are the reasons of jobs that make progress.
var working = []string{v1alpha1.ReasonMoving, v1alpha1.ReasonCounting, v1alpha1.ReasonDeleting}

func progressText(j jobs.Job) string {
	if !j.Begun {
		return readyText(j)
	}
	line := j.Counts(decimal)
	if j.Reason != "" && !slices.Contains(working, j.Reason) && !j.Ended() {
		line += ", " + readyText(j)
	}
	return line
}

// remaining estimates how long a job will take, from the progress so far.
func remaining(done, left int64, within time.Duration) string {
	if done <= 0 || left <= 0 || within <= 0 {
		return ""
	}
	return fmt.Sprintf(", about %s left", (time.Duration(left) * within / time.Duration(done)).Round(time.Second))
}
