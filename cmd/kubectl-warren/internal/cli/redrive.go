package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
)

type redriveCommand struct {
	*cluster
	genericiooptions.IOStreams
	redriveFlags

	output *output
	// say is where sentences go: stdout, unless it is to have the Redrive and nothing else.
	say                 io.Writer
	yes, dryRun, detach bool
}

// For how long Redrives are kept after they have ended: what was moved is on record for a day, what was counted only in case that this
// command could not delete the dry run.
const (
	keepRedrive = int32(24 * 60 * 60)
	keepDryRun  = int32(10 * 60)
)

func newRedrive(c *cluster, streams genericiooptions.IOStreams) *cobra.Command {
	r := &redriveCommand{cluster: c, IOStreams: streams}
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
	r.output = addOutput(cmd, formatTable, formatJSON, formatYAML, formatName)
	cmd.Flags().BoolVarP(&r.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&r.dryRun, "dry-run", false, "only count")
	cmd.Flags().BoolVar(&r.detach, "detach", false, "do not wait until the Redrive has ended")
	return cmd
}

func (r *redriveCommand) run(ctx context.Context, name string) error {
	spec, err := r.spec(name, time.Now())
	if err != nil {
		return err
	}
	if err := r.output.validate(); err != nil {
		return err
	}
	r.say = r.Out
	if r.output.format != formatTable {
		r.say = r.ErrOut
	}
	kube, err := r.open()
	if err != nil {
		return err
	}
	if _, err := kube.consumerQueue(ctx, name); err != nil {
		return err
	}
	spec.RequestedBy = r.requester(ctx, kube)
	question, err := r.count(ctx, kube, spec)
	if err != nil || question == "" {
		return err
	}
	if err := r.confirm(ctx, question); err != nil {
		return err
	}
	return r.move(ctx, kube, spec)
}

// requester is who the API server takes the user for; empty if it does not say.
func (r *redriveCommand) requester(ctx context.Context, kube session) string {
	review := &authenticationv1.SelfSubjectReview{}
	if err := kube.Create(ctx, review); err != nil {
		printf(r.ErrOut, "The API server does not say who you are, so the messages will not tell who asked: %v\n", err)
		return ""
	}
	return review.Status.UserInfo.Username
}

// count has the messages counted by a dry run, and returns what to ask; empty if there is nothing to ask.
func (r *redriveCommand) count(ctx context.Context, kube session, spec v1alpha1.RedriveSpec) (question string, err error) {
	counted, err := r.dryRunOf(ctx, kube, spec)
	if err != nil {
		return "", err
	}
	switch stage := stageOf(counted); {
	case isDeliveryLimited(counted):
		return r.offerAll(counted, spec)
	case stage != completed:
		return "", fmt.Errorf("the dead letters of ConsumerQueue %q cannot be counted: %s", spec.ConsumerQueueRef.Name, readyText(counted))
	}
	status := counted.Status
	printf(r.say, "Queue %s: %s.\n", status.Source, messageOf(counted))
	count := number(status.Moved)
	if spec.Limit != nil {
		count = min(count, int64(*spec.Limit))
	}
	if count == 0 || r.dryRun {
		return "", nil
	}
	return fmt.Sprintf("Move %s from %s to %s, %s?", messages(count), status.Source, destinationText(status), rateText(spec)), nil
}

func isDeliveryLimited(redrive *v1alpha1.Redrive) bool {
	ready := meta.FindStatusCondition(redrive.Status.Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Reason == v1alpha1.ReasonDeliveryLimited
}

// offerAll says what works with a dead-letter queue whose messages cannot be counted: to move all of them.
func (r *redriveCommand) offerAll(counted *v1alpha1.Redrive, spec v1alpha1.RedriveSpec) (question string, err error) {
	if r.dryRun || spec.Select != nil || spec.Limit != nil {
		return "", fmt.Errorf("%s. To move all of them, uncounted: kubectl warren dlq redrive %s --namespace %s, without --dry-run, "+
			"--limit and flags that select messages", messageOf(counted), spec.ConsumerQueueRef.Name, counted.Namespace)
	}
	printf(r.say, "The messages cannot be counted: %s.\n", messageOf(counted))
	return fmt.Sprintf("Move all dead letters of ConsumerQueue %s, uncounted, one at a time?", spec.ConsumerQueueRef.Name), nil
}

// dryRunOf creates a Redrive that only counts, waits for what it finds, and deletes it.
func (r *redriveCommand) dryRunOf(ctx context.Context, kube session, spec v1alpha1.RedriveSpec) (*v1alpha1.Redrive, error) {
	spec.DryRun, spec.Limit, spec.TTLSecondsAfterFinished = new(true), nil, new(keepDryRun)
	redrive, err := r.create(ctx, kube, spec, "-count-")
	if err != nil {
		return nil, err
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if err := client.IgnoreNotFound(kube.Delete(ending, redrive)); err != nil {
			printf(r.ErrOut, "Redrive %q, which has counted, could not be deleted: %v\n", redrive.Name, err)
		}
	}()
	progress := &progress{out: r.ErrOut, terminal: isTerminal(r.ErrOut)}
	counted, err := kube.await(ctx, redrive.Name, func(now *v1alpha1.Redrive) bool {
		if stage := stageOf(now); stage.ended() || stage == stalled {
			return true
		}
		progress.show(now, time.Now())
		return false
	}, r.ErrOut)
	progress.end()
	if err == nil && counted == nil {
		err = errors.New("stopped while the messages were counted; none was moved")
	}
	return counted, err
}

func (r *redriveCommand) create(ctx context.Context, kube session, spec v1alpha1.RedriveSpec, infix string) (*v1alpha1.Redrive, error) {
	redrive := &v1alpha1.Redrive{
		ObjectMeta: metav1.ObjectMeta{Namespace: kube.namespace, GenerateName: spec.ConsumerQueueRef.Name + infix},
		Spec:       spec,
	}
	return redrive, kube.Create(ctx, redrive)
}

// confirm asks. An answer other than yes is an error.
func (r *redriveCommand) confirm(ctx context.Context, question string) error {
	if r.yes {
		return nil
	}
	printf(r.ErrOut, "%s [y/N] ", question)
	answered := make(chan string, 1)
	go func() { // reading cannot be stopped, and the process ends soon
		answer, _ := bufio.NewReader(r.In).ReadString('\n')
		answered <- strings.ToLower(strings.TrimSpace(answer))
	}()
	answer := ""
	select {
	case answer = <-answered:
	case <-ctx.Done():
		printf(r.ErrOut, "\n")
	}
	if answer != "y" && answer != "yes" {
		return errors.New("no message was moved: answer y, or give --yes")
	}
	return nil
}

// move creates the Redrive and follows it.
func (r *redriveCommand) move(ctx context.Context, kube session, spec v1alpha1.RedriveSpec) error {
	spec.TTLSecondsAfterFinished = new(keepRedrive)
	redrive, err := r.create(ctx, kube, spec, "-")
	if err != nil {
		return err
	}
	printf(r.ErrOut, "Redrive %s/%s created.\n", redrive.Namespace, redrive.Name)
	if r.detach {
		return r.printRedrive(redrive)
	}
	last, ends := follow(ctx, kube, genericiooptions.IOStreams{Out: r.say, ErrOut: r.ErrOut}, redrive.Name)
	if last != nil {
		redrive = last
	}
	return errors.Join(r.printRedrive(redrive), ends)
}

func (r *redriveCommand) printRedrive(redrive *v1alpha1.Redrive) error {
	redrive.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Redrive"))
	redrive.ManagedFields = nil
	if r.output.format == formatName {
		printf(r.Out, "redrive.messaging.warren.dev/%s\n", redrive.Name)
		return nil
	}
	_, err := r.output.printed(r.Out, redrive)
	return err
}

func messageOf(redrive *v1alpha1.Redrive) string {
	ready := meta.FindStatusCondition(redrive.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil {
		return ""
	}
	return ready.Message
}

func messages(count int64) string {
	if count == 1 {
		return "1 message"
	}
	return fmt.Sprintf("%d messages", count)
}

func destinationText(status v1alpha1.RedriveStatus) string {
	if status.Destination == "" {
		return "where each was published first"
	}
	return string(status.Destination)
}

func rateText(spec v1alpha1.RedriveSpec) string {
	switch {
	case spec.Rate == nil:
		return "100 a second"
	case spec.Rate.StrVal == v1alpha1.Unlimited:
		return "as fast as the broker takes them"
	}
	return spec.Rate.String() + " a second"
}
