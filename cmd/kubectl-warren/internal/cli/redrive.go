package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/jobs"
)

type redriveCommand struct {
	jobCommand
	redriveFlags
}

func newRedrive(c *cluster, streams genericiooptions.IOStreams) *cobra.Command {
	r := &redriveCommand{jobCommand: jobCommand{cluster: c, IOStreams: streams}}
	cmd := &cobra.Command{
		Use:   "redrive NAME",
		Short: "Move dead letters of a ConsumerQueue back",
		Long: "Move dead letters of a ConsumerQueue back: to its main queue, or to where --to says. The messages are counted first, by a " +
			"dry run, which leaves them in their order. Then you are asked, a Redrive is created, and its progress is printed. Ctrl-C " +
			"ends only the printing. The Redrive is deleted a day after it has ended.\n\n" +
			"Exit code 3 means that the Redrive has failed or waits for somebody to mend something, 4 that it was cancelled.",
		Example: "  # Count what was rejected in the last two hours\n" +
			"  kubectl warren dlq redrive orders --died-reason Rejected --died-after 2h --dry-run\n\n" +
			"  # Move the dead letters of a tenant, 20 a second\n" +
			"  kubectl warren dlq redrive orders --header x-tenant=acme --rate 20 --reason 'the payment API is back'\n\n" +
			"  # Keep aside what cannot be mended\n" +
			"  kubectl warren dlq redrive orders --where 'size > 100000' --to consumerqueue/quarantine",
		Args:              usage(cobra.ExactArgs(1)),
		ValidArgsFunction: c.completeConsumerQueue,
		RunE:              func(cmd *cobra.Command, args []string) error { return r.run(cmd.Context(), args[0]) },
	}
	r.add(cmd)
	r.addFlags(cmd, "Redrive")
	return cmd
}

func (r *redriveCommand) run(ctx context.Context, name string) error {
	spec, err := r.spec(name, time.Now())
	if err != nil {
		return err
	}
	kube, err := r.begin(ctx, name)
	if err != nil {
		return err
	}
	if spec.RequestedBy, err = r.requester(ctx, kube); err != nil {
		return err
	}
	question, err := r.question(ctx, kube, spec)
	if err != nil || question == "" {
		return err
	}
	if err := r.confirm(ctx, question); err != nil {
		return err
	}
	spec.TTLSecondsAfterFinished = new(jobs.KeepSeconds)
	return r.carryOut(ctx, kube, redriveJob{&v1alpha1.Redrive{ObjectMeta: kube.generated(name + "-"), Spec: spec}})
}

// question has the messages counted by a dry run, and returns what to ask; empty if there is nothing to ask.
func (r *redriveCommand) question(ctx context.Context, kube session, spec v1alpha1.RedriveSpec) (string, error) {
	name, limit := spec.ConsumerQueueRef.Name, spec.Limit
	counted, err := r.count(ctx, kube, redriveJob{&v1alpha1.Redrive{ObjectMeta: kube.generated(name + "-"), Spec: spec}})
	if err != nil {
		return "", err
	}
	if ready := readyOf(counted); ready != nil && ready.Reason == v1alpha1.ReasonDeliveryLimited {
		return r.offerAll(counted, spec)
	}
	if err := r.sayCount(counted, name); err != nil {
		return "", err
	}
	status := counted.(redriveJob).redrive.Status
	count := number(status.Moved)
	if limit != nil {
		count = min(count, int64(*limit))
	}
	if count == 0 || r.dryRun {
		return "", nil
	}
	to := cmp.Or(string(status.Destination), jobs.DestinationText(spec.Destination))
	return fmt.Sprintf("Move %s from %s to %s, %s?", messages(count), status.Source, to, jobs.RateText(spec.Rate)), nil
}

// offerAll says what works with a dead-letter queue whose messages cannot be counted: to move all of them.
func (r *redriveCommand) offerAll(counted job, spec v1alpha1.RedriveSpec) (question string, err error) {
	name := spec.ConsumerQueueRef.Name
	if r.dryRun || spec.Select != nil || spec.Limit != nil {
		return "", fmt.Errorf("%s. To move all of them, uncounted: kubectl warren dlq redrive %s --namespace %s, without --dry-run, "+
			"--limit and flags that select messages", messageOf(counted), name, counted.object().GetNamespace())
	}
	printf(r.say, "The messages cannot be counted: %s.\n", messageOf(counted))
	return fmt.Sprintf("Move all dead letters of ConsumerQueue %s to %s, %s, uncounted, one at a time?",
		name, jobs.DestinationText(spec.Destination), jobs.RateText(spec.Rate)), nil
}

// confirm asks. An answer other than yes is an error.
func (r *redriveCommand) confirm(ctx context.Context, question string) error {
	if r.yes || slices.Contains([]string{"y", "yes"}, strings.ToLower(r.ask(ctx, question+" [y/N]"))) {
		return nil
	}
	return errors.New("no message was moved: answer y, or give --yes")
}
