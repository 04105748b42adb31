package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/preview"
)

type planCommand struct {
	*cluster

	files   *files
	output  *output
	version string
}

func newPlan(c *cluster) *cobra.Command {
	p := &planCommand{cluster: c}
	cmd := &cobra.Command{
		Use:   "plan (-f FILE | NAME)",
		Short: "Show what applying a ConsumerQueue would change at the broker",
		Long: "Show what applying a ConsumerQueue would change at the broker, as Warren's planner computes it. " +
			"The command changes nothing.\n\n" +
			"kubectl warren does not connect to the broker. It reads the state of the broker from the status of the ConsumerQueue, which " +
			"Warren writes after each comparison. It does not see manually created objects that the status does not list. " +
			"It does not validate the spec: use `kubectl apply --dry-run=server` for that.\n\n" +
			"Exit code 2 means that there are changes.",
		Example: "  # Show every object that would be declared, without a cluster\n" +
			"  kubectl warren plan -f orders.yaml --broker-version 4.3\n\n" +
			"  # Show what a changed file does to the ConsumerQueue in the cluster\n" +
			"  kubectl warren plan -f orders.yaml\n\n" +
			"  # Show what Warren has yet to do for a ConsumerQueue\n" +
			"  kubectl warren plan orders",
		Args:              usage(cobra.MaximumNArgs(1)),
		ValidArgsFunction: c.completeConsumerQueue,
		RunE:              func(cmd *cobra.Command, args []string) error { return p.run(cmd.Context(), args) },
	}
	p.files = addFiles(cmd, "the ConsumerQueues to plan for")
	p.output = addOutput(cmd, formatTable, formatWide, formatJSON, formatYAML)
	cmd.Flags().StringVar(&p.version, "broker-version", "",
		"plan for an empty broker of this RabbitMQ version, such as 4.3; the command does not contact a cluster")
	return cmd
}

func (p *planCommand) run(ctx context.Context, args []string) error {
	if err := p.validate(args); err != nil {
		return err
	}
	previews, err := p.previews(ctx, args)
	if err != nil {
		return err
	}
	return p.print(previews)
}

func (p *planCommand) validate(args []string) error {
	switch {
	case p.files.given() == (len(args) > 0):
		return usageError("give either -f FILE or the NAME of a ConsumerQueue; see kubectl warren plan --help")
	case p.version != "" && !p.files.given():
		return usageError("--broker-version requires -f: a ConsumerQueue in the cluster is compared with its own broker")
	}
	return nil
}

func (p *planCommand) previews(ctx context.Context, args []string) ([]preview.Preview, error) {
	if len(args) > 0 {
		kube, cq, err := p.openQueue(ctx, args[0])
		if err != nil {
			return nil, err
		}
		made, err := againstStatus(ctx, kube, cq, cq)
		return []preview.Preview{made}, err
	}
	queues, others, err := p.files.consumerQueues(p.In)
	if err != nil {
		return nil, err
	}
	for _, other := range others {
		printf(p.ErrOut, "note: skipped %s, which is not a ConsumerQueue\n", other)
	}
	if p.version != "" {
		return p.offline(queues)
	}
	return p.forFiles(ctx, queues)
}

func (p *planCommand) offline(queues []*v1alpha1.ConsumerQueue) ([]preview.Preview, error) {
	version, err := parseBrokerVersion(p.version)
	if err != nil {
		return nil, err
	}
	var previews []preview.Preview
	for _, cq := range queues {
		made, err := preview.OnEmptyBroker(cq, version)
		if err != nil {
			return nil, refused(cq, err)
		}
		previews = append(previews, made)
	}
	return previews, nil
}

func (p *planCommand) forFiles(ctx context.Context, queues []*v1alpha1.ConsumerQueue) ([]preview.Preview, error) {
	kube, err := p.open()
	if err != nil {
		return nil, err
	}
	var previews []preview.Preview
	for _, cq := range queues {
		here, err := p.inNamespaceOf(kube, cq)
		if err != nil {
			return nil, err
		}
		made, err := forFile(ctx, here, cq)
		if err != nil {
			return nil, err
		}
		previews = append(previews, made)
	}
	return previews, nil
}

// inNamespaceOf returns a session in the namespace of an object from a file.
func (p *planCommand) inNamespaceOf(kube session, cq *v1alpha1.ConsumerQueue) (session, error) {
	switch given := *p.flags.Namespace; {
	case cq.Namespace == "":
		cq.Namespace = kube.namespace
	case given != "" && given != cq.Namespace:
		return kube, usageError("ConsumerQueue %q has the namespace %q, and --namespace is %q: remove one of them",
			cq.Name, cq.Namespace, given)
	}
	kube.namespace = cq.Namespace
	return kube, nil
}

// forFile previews a ConsumerQueue that may already be in the cluster.
func forFile(ctx context.Context, kube session, cq *v1alpha1.ConsumerQueue) (preview.Preview, error) {
	inCluster, err := kube.consumerQueue(ctx, cq.Name)
	switch {
	case apierrors.IsNotFound(err) && !isUnknownResource(err):
		version, err := kube.brokerVersion(ctx, cq)
		if err != nil {
			return preview.Preview{}, err
		}
		made, err := preview.OnEmptyBroker(cq, version)
		return made, refused(cq, err)
	case err != nil:
		return preview.Preview{}, err
	}
	if err := checkImmutable(inCluster, cq); err != nil {
		return preview.Preview{}, err
	}
	return againstStatus(ctx, kube, cq, inCluster)
}

// checkImmutable returns an error for changes that the API server would refuse.
func checkImmutable(before, after *v1alpha1.ConsumerQueue) error {
	if a, b := before.QueueName(), after.QueueName(); a != b {
		return fmt.Errorf("ConsumerQueue %q: spec.queue.name is %q in the cluster and %q in the file, and cannot be changed: "+
			"keep the name, or create a ConsumerQueue with another name", after.Name, a, b)
	}
	if a, b := before.ConnectionName(), after.ConnectionName(); a != b {
		return fmt.Errorf("ConsumerQueue %q: spec.connectionRef.name is %q in the cluster and %q in the file, and cannot be changed: keep "+
			"the name, or create a ConsumerQueue with another name", after.Name, a, b)
	}
	return nil
}

func againstStatus(ctx context.Context, kube session, cq, inCluster *v1alpha1.ConsumerQueue) (preview.Preview, error) {
	version, err := kube.brokerVersion(ctx, inCluster)
	if err != nil {
		return preview.Preview{}, err
	}
	list, err := kube.consumerQueues(ctx, false)
	if err != nil {
		return preview.Preview{}, err
	}
	var others []v1alpha1.ConsumerQueue
	for i := range list.Items {
		if other := &list.Items[i]; other.Name != cq.Name && other.ConnectionName() == cq.ConnectionName() {
			others = append(others, *other)
		}
	}
	made, err := preview.AgainstStatus(cq, inCluster, version, others)
	return made, refused(cq, err)
}

// refused adds the name of the ConsumerQueue to an error.
func refused(cq *v1alpha1.ConsumerQueue, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("ConsumerQueue %q: %w", cq.Name, err)
}

func (p *planCommand) print(previews []preview.Preview) error {
	printed, err := p.output.printed(p.Out, previews)
	if err != nil {
		return err
	}
	differs := false
	for i, made := range previews {
		differs = differs || made.Differs()
		if printed {
			continue
		}
		if i > 0 {
			printf(p.Out, "\n")
		}
		if err := printPreview(p.Out, made, p.output.format == formatWide, isColoured(p.Out)); err != nil {
			return err
		}
	}
	if differs {
		return &exit{code: exitDiffers}
	}
	return nil
}

// printPreview prints a preview for people. Wide shows all arguments.
func printPreview(out io.Writer, made preview.Preview, wide, coloured bool) error {
	name := made.ConsumerQueue
	if made.Namespace != "" {
		name = made.Namespace + "/" + name
	}
	printf(out, "ConsumerQueue %s on RabbitMQ %s, %s.\n", name, made.BrokerVersion, basisText[made.Basis])
	if text := rejectModeText[made.RejectMode]; text != "" {
		printf(out, "spec.retry.strategy Reject uses the mode %s.\n", text)
	}
	for _, note := range made.Notes {
		printf(out, "Note: %s.\n", note)
	}
	printf(out, "\n")
	rows := newTable(coloured, "ACTION", "KIND", "NAME", "DETAIL")
	for _, object := range made.Objects {
		rows.add(cell{actionText[object.Action], actionColour[object.Action]}, cellOf(string(object.Kind)), cellOf(objectName(object)),
			cellOf(objectDetail(object, wide)))
	}
	if err := rows.print(out); err != nil {
		return err
	}
	if err := printRecreation(out, made.Recreation); err != nil {
		return err
	}
	printf(out, "\n%s\n", summary(made))
	return nil
}
