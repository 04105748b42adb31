package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/definitions"
	"github.com/warren-mq/warren/internal/topology"
)

type exportCommand struct {
	*cluster
	offlineFlags
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
	e.add(cmd, "ConsumerQueues", "to export for", "file")
	return cmd
}

func (e *exportCommand) run(ctx context.Context, args []string) error {
	if e.files.given() == (len(args) > 0) {
		return usageError("give either the NAMEs of ConsumerQueues or -f FILE; see kubectl warren export --help")
	}
	if err := e.checkBrokerVersion(); err != nil {
		return err
	}
	queues, err := e.queues(ctx, e.cluster, args)
	if err != nil {
		return err
	}
	var vhosts []string
	topologies := map[string][]topology.Topology{}
	for _, cq := range queues {
		desired, err := topology.Desired(cq.ConsumerQueue, cq.version)
		if err != nil {
			return refused(cq.ConsumerQueue, err)
		}
		if !slices.Contains(vhosts, cq.vhost) {
			vhosts = append(vhosts, cq.vhost)
		}
		topologies[cq.vhost] = append(topologies[cq.vhost], desired)
	}
	file := definitions.File{Exchanges: []definitions.Exchange{}, Queues: []definitions.Queue{}, Bindings: []definitions.Binding{}}
	for _, name := range vhosts {
		part, missing := definitions.Of(topologies[name], name)
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
