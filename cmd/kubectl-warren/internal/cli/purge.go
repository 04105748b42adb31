package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/jobs"
	"github.com/warren-mq/warren/internal/text"
)

type purgeCommand struct {
	jobCommand
	purgeFlags
}

func newPurge(c *cluster) *cobra.Command {
	p := &purgeCommand{jobCommand: jobCommand{cluster: c}}
	cmd := &cobra.Command{
		Use:   "purge NAME (--expected-at-most N | --dry-run)",
		Short: "Delete dead letters of a ConsumerQueue permanently",
		Long: "Delete the dead letters of a ConsumerQueue that the flags select, or all of them. Deleted messages cannot be recovered. " +
			"A dry run counts the messages first, and leaves them in their order. If more than --expected-at-most match, none is " +
			"deleted. Otherwise the command asks you to type their number, creates a Purge, and prints its progress. The Purge " +
			"deletes at most the number that you typed. With --yes, it deletes at most --expected-at-most messages. " +
			"Ctrl-C stops only this command. " +
			"Warren deletes the Purge resource one day after it has ended.\n\n" +
			"The command requires the role admin in the namespace.\n\n" +
			exitCodes,
		Example: "  # Count the messages that died more than 30 days ago\n" +
			"  kubectl warren dlq purge orders --died-before 30d --dry-run\n\n" +
			"  # Delete them, if there are no more than expected\n" +
			"  kubectl warren dlq purge orders --died-before 30d --expected-at-most 412 --reason 'older than 30 days'",
		Args:              usage(cobra.ExactArgs(1)),
		ValidArgsFunction: c.completeConsumerQueue,
		RunE:              func(cmd *cobra.Command, args []string) error { return p.run(cmd.Context(), args[0]) },
	}
	p.add(cmd)
	p.addFlags(cmd, "Purge")
	return cmd
}

// purgeFlags are the flags that form the spec of a Purge.
type purgeFlags struct {
	selectorFlags

	expectedAtMost int32
	rate, reason   string
}

func (f *purgeFlags) add(cmd *cobra.Command) {
	f.selectorFlags.add(cmd)
	flags := cmd.Flags()
	flags.Int32Var(&f.expectedAtMost, "expected-at-most", 0, "the largest number of messages that you expect: if more "+
		"match, none is deleted; optional with --dry-run")
	flags.StringVar(&f.rate, "rate", "", "the number of messages per second, or unlimited (default unlimited)")
	flags.StringVar(&f.reason, "reason", "", "why you delete the messages, for spec.reason of the Purge")
}

// spec returns the spec of a Purge of a ConsumerQueue. ExpectedAtMost is zero if the flag is not given.
func (f *purgeFlags) spec(consumerQueue string, now time.Time) (v1alpha1.PurgeSpec, error) {
	spec := v1alpha1.PurgeSpec{
		ConsumerQueueRef: v1alpha1.LocalObjectReference{Name: consumerQueue}, ExpectedAtMost: f.expectedAtMost, Reason: f.reason,
	}
	selection, err := f.selection(now)
	if err != nil {
		return spec, err
	}
	spec.Selector = selection
	if f.expectedAtMost < 0 {
		return spec, usageError("--expected-at-most is %d: must be at least 1", f.expectedAtMost)
	}
	spec.Rate, err = givenNumber("--rate", f.rate)
	return spec, err
}

func (p *purgeCommand) run(ctx context.Context, name string) error {
	spec, err := p.spec(name, time.Now())
	if err != nil {
		return err
	}
	if spec.ExpectedAtMost == 0 && p.dryRun != dryRunServer {
		return usageError("--expected-at-most N is missing: give the largest number of messages that you expect. " +
			"To count the messages first, use --dry-run instead")
	}
	newJob := func(namespace string) client.Object {
		return &v1alpha1.Purge{ObjectMeta: generated(namespace, name), Spec: spec}
	}
	kube, counted, err := p.prepare(ctx, name, &spec.RequestedBy, newJob)
	if err != nil || counted == nil {
		return err
	}
	if err := p.sayCount(*counted, name); err != nil {
		return err
	}
	matched := counted.Done
	if err := asExpected(matched, spec.ExpectedAtMost); err != nil {
		return errors.Join(err, p.print(counted.Object))
	}
	if matched == 0 || p.dryRun == dryRunServer {
		return p.endCount(*counted)
	}
	if !p.yes {
		spec.ExpectedAtMost = int32(matched) // the user confirms no more messages than match now
		if err := p.confirm(ctx, counted.Source, spec); err != nil {
			return err
		}
	}
	spec.TTLSecondsAfterFinished = new(jobs.KeepSeconds)
	return p.carryOut(ctx, kube, *counted, newJob(kube.namespace))
}

// asExpected returns an error if more messages match than the user expects. Zero expects any number.
func asExpected(matched int64, expected int32) error {
	if expected == 0 || matched <= int64(expected) {
		return nil
	}
	return fmt.Errorf("%s match, and --expected-at-most is %d: none is deleted. Select fewer messages, or increase --expected-at-most",
		text.Count(matched, "message"), expected)
}

// confirm asks for the number of messages, which a user does not type by habit. Another answer is an error.
func (p *purgeCommand) confirm(ctx context.Context, queue string, spec v1alpha1.PurgeSpec) error {
	want := strconv.Itoa(int(spec.ExpectedAtMost))
	if p.ask(ctx, purgeQuestion(queue, spec)) == want {
		return nil
	}
	return fmt.Errorf("cancelled. No message was deleted: type %s, the number of messages, or add --yes", want)
}

func purgeQuestion(queue string, spec v1alpha1.PurgeSpec) string {
	rate := ""
	if spec.Rate != nil && spec.Rate.StrVal != v1alpha1.Unlimited {
		rate = ", " + spec.Rate.String() + " a second"
	}
	return fmt.Sprintf("Delete %s from %s%s? They cannot be recovered. Type the number of messages to delete:",
		text.Count(int64(spec.ExpectedAtMost), "message"), queue, rate)
}
