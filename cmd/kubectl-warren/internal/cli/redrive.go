package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/jobs"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/printable"
	"github.com/warren-mq/warren/internal/text"
)

type redriveCommand struct {
	jobCommand
	redriveFlags
}

func newRedrive(c *cluster) *cobra.Command {
	r := &redriveCommand{jobCommand: jobCommand{cluster: c}}
	cmd := &cobra.Command{
		Use:   "redrive NAME",
		Short: "Move dead letters of a ConsumerQueue back",
		Long: "Move dead letters of a ConsumerQueue back to its main queue, or to the destination of --to. A dry run counts the messages " +
			"first, and leaves them in their order. Then the command asks for confirmation, creates a Redrive that moves no more " +
			"messages than were counted, and prints its progress. Ctrl-C stops only this command. Warren deletes the Redrive " +
			"resource one day after it has ended.\n\n" +
			exitCodes,
		Example: "  # Count the messages that were rejected in the last two hours\n" +
			"  kubectl warren dlq redrive orders --died-reason Rejected --died-after 2h --dry-run\n\n" +
			"  # Move the dead letters of a tenant, 20 a second\n" +
			"  kubectl warren dlq redrive orders --header x-tenant=acme --rate 20 --reason 'the payment API is back'\n\n" +
			"  # Move large messages to the main queue of another ConsumerQueue\n" +
			"  kubectl warren dlq redrive orders --expression 'size > 100000' --to consumerqueue/quarantine",
		Args:              usage(cobra.ExactArgs(1)),
		ValidArgsFunction: c.completeConsumerQueue,
		RunE:              func(cmd *cobra.Command, args []string) error { return r.run(cmd.Context(), args[0]) },
	}
	r.add(cmd)
	_ = cmd.RegisterFlagCompletionFunc("to", c.completeDestination)
	r.addFlags(cmd, "Redrive")
	return cmd
}

func (r *redriveCommand) run(ctx context.Context, name string) error {
	spec, err := r.spec(name, time.Now())
	if err != nil {
		return err
	}
	newJob := func(namespace string) client.Object {
		return &v1alpha1.Redrive{ObjectMeta: generated(namespace, name), Spec: spec}
	}
	kube, counted, err := r.prepare(ctx, name, &spec.RequestedBy, newJob)
	if err != nil || counted == nil {
		return err
	}
	question := ""
	if counted.Reason == v1alpha1.ReasonDeliveryLimited {
		question, err = r.offerAll(*counted, spec)
	} else {
		question, err = r.question(*counted, &spec)
	}
	if err != nil {
		return err
	}
	if question == "" {
		return r.endCount(*counted)
	}
	if err := r.confirm(ctx, question); err != nil {
		return err
	}
	spec.TTLSecondsAfterFinished = new(jobs.KeepSeconds)
	return r.carryOut(ctx, kube, *counted, newJob(kube.namespace))
}

// question prints the count of a dry run, and returns the question; empty if there is nothing to confirm. It sets the count as the
// limit, because more messages may match when the Redrive runs.
func (r *redriveCommand) question(counted jobs.Job, spec *v1alpha1.RedriveSpec) (string, error) {
	if err := r.sayCount(counted, spec.ConsumerQueueRef.Name); err != nil {
		return "", err
	}
	count := min(counted.Done, math.MaxInt32)
	if spec.MaxMessages != nil {
		count = min(count, int64(*spec.MaxMessages))
	}
	if count == 0 || r.dryRun == dryRunServer {
		return "", nil
	}
	spec.MaxMessages = new(int32(count))
	to := cmp.Or(counted.Dest, jobs.DestinationText(spec.Destination))
	return fmt.Sprintf("Move %s from %s to %s, %s?", text.Count(count, "message"), counted.Source, to, jobs.RateText(spec.Rate)), nil
}

// offerAll handles a dead-letter queue whose messages cannot be counted: it returns the question whether to move all of them.
func (r *redriveCommand) offerAll(counted jobs.Job, spec v1alpha1.RedriveSpec) (question string, err error) {
	name := spec.ConsumerQueueRef.Name
	if r.dryRun == dryRunServer || spec.Selector != nil || spec.MaxMessages != nil {
		return "", fmt.Errorf("%s. To move all messages without a count, run `kubectl warren dlq redrive %s --namespace %s` "+
			"without --dry-run, --max-messages and flags that select messages", printable.Text(counted.Message), name, counted.Namespace)
	}
	printf(r.say, "The messages cannot be counted: %s.\n", printable.Text(counted.Message))
	return fmt.Sprintf("Move all dead letters of ConsumerQueue %s to %s, %s, one at a time, without a count?",
		name, jobs.DestinationText(spec.Destination), jobs.RateText(spec.Rate)), nil
}

// confirm asks the question. An answer other than yes is an error.
func (r *redriveCommand) confirm(ctx context.Context, question string) error {
	if r.yes || slices.Contains([]string{"y", "yes"}, strings.ToLower(r.ask(ctx, question+" [y/N]"))) {
		return nil
	}
	return errors.New("cancelled. No message was moved: answer y, or add --yes")
}
