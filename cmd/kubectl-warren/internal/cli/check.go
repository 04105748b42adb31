package cli

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/check"
	"github.com/warren-mq/warren/internal/buildinfo"
)

type checkCommand struct {
	*cluster

	api            apiFlags
	output         *output
	all, uninstall bool
	// isWarrenNamespaceGiven is true if --warren-namespace is on the command line.
	isWarrenNamespaceGiven bool
}

// checks is the JSON and YAML form of check.
type checks struct {
	Checks []check.Result `json:"checks"`
}

func newCheck(c *cluster) *cobra.Command {
	k := &checkCommand{cluster: c}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check that Warren works, and print what to do if it does not",
		Long: "Check that Warren works: a manager leads, its version matches the CRDs and this plugin, your roles are sufficient, and " +
			"the dead-letter API answers. The BrokerConnections of the namespace must be Ready, and the tags and " +
			"permissions of their RabbitMQ users must be sufficient.\n\n" +
			"A check that needs a right you lack is skipped. The command changes nothing. It reads no Secret and no message.\n\n" +
			"With --uninstall, list the objects whose deletion would never end without a manager, the recreations and jobs that have " +
			"not ended, and the order of deletion.\n\n" + exitCodes,
		Example: "  # Check the namespace of the context\n" +
			"  kubectl warren check\n\n" +
			"  # Find out what to delete before you uninstall Warren\n" +
			"  kubectl warren check --uninstall",
		Args: usage(cobra.NoArgs),
	}
	k.output = addOutput(cmd, formatTable, formatJSON, formatYAML)
	cmd.Flags().BoolVarP(&k.all, "all-namespaces", "A", false, "check the BrokerConnections and ConsumerQueues of all namespaces")
	cmd.Flags().BoolVar(&k.uninstall, "uninstall", false,
		"list what to delete before Warren is uninstalled, in all namespaces or in that of --namespace")
	k.api.add(cmd, c)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		k.isWarrenNamespaceGiven = cmd.Flags().Changed("warren-namespace")
		return k.run(cmd.Context())
	}
	return cmd
}

func (k *checkCommand) run(ctx context.Context) error {
	reader, err := k.newCheckReader()
	if err != nil {
		return err
	}
	run := reader.installation
	if k.uninstall {
		reader.all = k.all || *k.flags.Namespace == ""
		run = reader.leftovers
	}
	results, err := run(ctx)
	if err != nil {
		return err
	}
	if printed, err := k.output.printed(k.Out, checks{results}); err != nil {
		return err
	} else if !printed {
		printChecks(k.Out, results, isColoured(k.Out))
		if k.uninstall {
			namespace := reader.namespace
			if reader.all {
				namespace = ""
			}
			printf(k.Out, "\nWhile a manager leads, delete the resources in this order, until the last command finds nothing:\n  %s\n"+
				"To keep every queue, and for the next steps: %s\n",
				strings.Join(check.Order(namespace), "\n  "), "https://warren-mq.github.io/warren/installation/#remove-warren")
		}
	}
	if check.AnyFailed(results) {
		return &exit{code: exitDiffers}
	}
	return nil
}

func (k *checkCommand) newCheckReader() (*checkReader, error) {
	kube, err := k.open()
	if err != nil {
		return nil, err
	}
	reader := &checkReader{session: kube, cluster: k.cluster, api: k.api, all: k.all, pluginVersion: buildinfo.Get().Version}
	if k.isWarrenNamespaceGiven {
		reader.only = k.api.warrenNamespace
	}
	return reader, nil
}

var checkColour = map[check.State]colour{check.OK: green, check.Warning: yellow, check.Failed: red, check.Skipped: faint}

// printChecks prints a line for each result, and below it what to do.
func printChecks(out io.Writer, results []check.Result, coloured bool) {
	rows := newTable(coloured)
	for _, each := range results {
		rows.add(cell{string(each.State), checkColour[each.State]}, cellOf(each.Check), cellOf(each.Object), cellOf(each.Message))
	}
	widths := widthsOf(rows.rows)
	for i, each := range results {
		_, _ = io.WriteString(out, rows.line(rows.rows[i], widths))
		if each.Remedy == "" {
			continue
		}
		for line := range strings.Lines(each.Remedy) {
			printf(out, "%s%s\n", strings.Repeat(" ", widths[0]+3), strings.TrimSuffix(line, "\n"))
		}
	}
}
