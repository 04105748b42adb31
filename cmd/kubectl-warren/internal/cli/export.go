package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/definitions"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

type exportCommand struct {
	*cluster

	files          *files
	version, vhost string
}

func newExport(c *cluster) *cobra.Command {
	e := &exportCommand{cluster: c}
	cmd := &cobra.Command{
		Use:   "export (NAME... | -f FILE --broker-version VERSION)",
		Short: "Print the topologies of ConsumerQueues as a definitions.json of RabbitMQ",
		Long: "Print the desired topologies of ConsumerQueues as a definitions.json of RabbitMQ. Exchanges that Warren does not declare " +
			"are left out, and listed on stderr.",
		Example: "  kubectl warren export orders payments >definitions.json\n" +
			"  kubectl warren export -f orders.yaml --broker-version 4.3 --vhost shop",
		Args:              usage(cobra.ArbitraryArgs),
		ValidArgsFunction: c.completeConsumerQueues,
		RunE:              func(cmd *cobra.Command, args []string) error { return e.run(cmd.Context(), args) },
	}
	e.files = addFiles(cmd, "read the ConsumerQueues from files instead of the cluster")
	cmd.Flags().StringVar(&e.version, "broker-version", "", "with -f: the RabbitMQ version to export for, such as 4.3; "+
		"the command does not contact a cluster")
	cmd.Flags().StringVar(&e.vhost, "vhost", "", "the vhost to write into the file (default that of the BrokerConnection, or / with -f)")
	return cmd
}

// located is a topology with its vhost.
type located struct {
	topology.Topology

	vhost string
}

func (e *exportCommand) run(ctx context.Context, args []string) error {
	if e.files.given() == (len(args) > 0) {
		return usageError("want either the NAMEs of ConsumerQueues or -f FILE; see kubectl warren export --help")
	}
	if err := e.files.checkBrokerVersion(e.version); err != nil {
		return err
	}
	topologies, err := e.topologies(ctx, args)
	if err != nil {
		return err
	}
	file := definitions.File{Exchanges: []definitions.Exchange{}, Queues: []definitions.Queue{}, Bindings: []definitions.Binding{}}
	for _, name := range vhostsOf(topologies) {
		var here []topology.Topology
		for _, each := range topologies {
			if each.vhost == name {
				here = append(here, each.Topology)
			}
		}
		part, missing := definitions.Of(here, name)
		file.Exchanges = append(file.Exchanges, part.Exchanges...)
		file.Queues = append(file.Queues, part.Queues...)
		file.Bindings = append(file.Bindings, part.Bindings...)
		for _, exchange := range missing {
			printf(e.ErrOut, "note: exchange %q is not in the file: Warren does not declare it, because its binding has no exchange type\n",
				exchange)
		}
	}
	asJSON := &output{format: formatJSON}
	_, err = asJSON.printed(e.Out, file)
	return err
}

func vhostsOf(topologies []located) []string {
	var names []string
	for _, each := range topologies {
		if !slices.Contains(names, each.vhost) {
			names = append(names, each.vhost)
		}
	}
	return names
}

func (e *exportCommand) topologies(ctx context.Context, args []string) ([]located, error) {
	if e.files.given() {
		return e.offline()
	}
	kube, err := e.open()
	if err != nil {
		return nil, err
	}
	topologies := make([]located, 0, len(args))
	for _, name := range args {
		cq, name, version, err := kube.located(ctx, name)
		if err != nil {
			return nil, err
		}
		made, err := e.locate(cq, version, name)
		if err != nil {
			return nil, err
		}
		topologies = append(topologies, made)
	}
	return topologies, nil
}

func (e *exportCommand) offline() ([]located, error) {
	version, err := parseBrokerVersion(e.version)
	if err != nil {
		return nil, err
	}
	queues, _, err := e.files.consumerQueues(e.In)
	if err != nil {
		return nil, err
	}
	topologies := make([]located, 0, len(queues))
	for _, cq := range queues {
		made, err := e.locate(cq, version, "/")
		if err != nil {
			return nil, err
		}
		topologies = append(topologies, made)
	}
	return topologies, nil
}

// locate returns the topology of a ConsumerQueue in a vhost, which --vhost overrides.
func (e *exportCommand) locate(cq *v1alpha1.ConsumerQueue, version vhost.Version, name string) (located, error) {
	desired, err := topology.Desired(cq, version)
	if err != nil {
		return located{}, refused(cq, err)
	}
	if e.vhost != "" {
		name = e.vhost
	}
	return located{desired, name}, nil
}
