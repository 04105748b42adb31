package cli

import (
	"cmp"
	"errors"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/definitions"
	"github.com/warren-mq/warren/internal/text"
	"github.com/warren-mq/warren/internal/vhost"
)

type importCommand struct {
	*cluster

	version, vhost, connection, driftPolicy string
}

func newImport(c *cluster) *cobra.Command {
	i := &importCommand{cluster: c}
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Print ConsumerQueues for the queues of a definitions.json of RabbitMQ",
		Long: "Print ConsumerQueues for the queues of a definitions.json of RabbitMQ, as YAML on stdout. FILE may be - for stdin. The " +
			"command contacts neither a cluster nor a broker.\n\n" +
			"The routes of dead letters decide which queue is a main queue, a delay tier or a dead-letter queue; names decide only if " +
			"the routes do not. Warren's planner then compares each ConsumerQueue with the file. The command lists on stderr the " +
			"differences, the assumptions, and the objects that no ConsumerQueue can have. Read this list before you apply anything.",
		Example: "  rabbitmqctl export_definitions definitions.json\n" +
			"  kubectl warren import definitions.json --vhost shop >consumerqueues.yaml",
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error { return i.run(args[0]) },
	}
	cmd.Flags().StringVar(&i.version, "broker-version", "",
		"the RabbitMQ version of the broker, such as 4.3 (default the version that wrote FILE)")
	cmd.Flags().StringVar(&i.vhost, "vhost", "", "the vhost to import, if FILE has several")
	cmd.Flags().StringVar(&i.connection, "connection", "", "the BrokerConnection of the ConsumerQueues (default \"default\")")
	cmd.Flags().StringVar(&i.driftPolicy, "drift-policy", string(v1alpha1.DriftPolicyReport),
		"the driftPolicy of the ConsumerQueues: with Report, Warren writes nothing to the broker; Correct declares missing objects")
	return cmd
}

func (i *importCommand) run(name string) error {
	if !slices.Contains([]string{string(v1alpha1.DriftPolicyReport), string(v1alpha1.DriftPolicyCorrect)}, i.driftPolicy) {
		return usageError("--drift-policy is %q: must be Report or Correct", i.driftPolicy)
	}
	content, err := i.read(name)
	if err != nil {
		return err
	}
	file, err := definitions.Parse(content)
	if err != nil {
		return err
	}
	options, err := i.options(file)
	if err != nil {
		return err
	}
	queues, findings := definitions.Import(file, options)
	if err := printQueues(i.Out, queues); err != nil {
		return err
	}
	printFindings(i.ErrOut, len(queues), options.Version, findings)
	return nil
}

func (i *importCommand) read(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(i.In)
	}
	return os.ReadFile(name)
}

func (i *importCommand) options(file definitions.File) (definitions.Options, error) {
	options := definitions.Options{
		VHost: i.vhost, Connection: i.connection, Namespace: *i.flags.Namespace, DriftPolicy: v1alpha1.DriftPolicy(i.driftPolicy),
	}
	version := cmp.Or(i.version, file.Version())
	if version == "" {
		return options, usageError("the file does not contain the RabbitMQ version: add --broker-version, such as 4.3")
	}
	var err error
	if options.Version, err = parseBrokerVersion(version); err != nil {
		return options, err
	}
	vhosts := file.VHosts()
	switch {
	case len(vhosts) == 0:
		return options, errors.New("the file has neither queues nor exchanges: give a file of `rabbitmqctl export_definitions`")
	case i.vhost == "" && len(vhosts) > 1:
		return options, usageError("the file has several vhosts: choose one with --vhost: %s", text.Quoted(vhosts))
	case i.vhost == "":
		options.VHost = vhosts[0]
	case slices.Equal(vhosts, []string{""}):
		options.VHost = "" // the file of a single vhost does not name it
	case !slices.Contains(vhosts, i.vhost):
		return options, usageError("--vhost is %q: the file has %s", i.vhost, text.Quoted(vhosts))
	}
	return options, nil
}

func printQueues(out io.Writer, queues []*v1alpha1.ConsumerQueue) error {
	asYAML := &output{format: formatYAML}
	for n, cq := range queues {
		manifest, err := manifestOf(cq)
		if err != nil {
			return err
		}
		if n > 0 {
			printf(out, "---\n")
		}
		if _, err := asYAML.printed(out, manifest); err != nil {
			return err
		}
	}
	return nil
}

var findingTitles = []struct {
	kind  definitions.Kind
	title string
}{
	{definitions.Differs, "Differs from the file, so that the ConsumerQueue would not be in sync"},
	{definitions.Assumed, "Assumed, because the file does not contain it"},
	{definitions.LeftOut, "Left out, because no ConsumerQueue can have it, or Warren would refuse it"},
}

func printFindings(out io.Writer, count int, version vhost.Version, findings []definitions.Finding) {
	printf(out, "ConsumerQueues for RabbitMQ %s: %d\n", version, count)
	for _, each := range findingTitles {
		titled := false
		for _, finding := range findings {
			if finding.Kind != each.kind {
				continue
			}
			if !titled {
				printf(out, "\n%s:\n", each.title)
				titled = true
			}
			if finding.ConsumerQueue != "" {
				printf(out, "- %s: %s\n", finding.ConsumerQueue, finding.Message)
			} else {
				printf(out, "- %s\n", finding.Message)
			}
		}
	}
}
