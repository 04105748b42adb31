package cli

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
)

type reportCommand struct {
	checkCommand

	file  string
	force bool
}

func newReport(c *cluster) *cobra.Command {
	r := &reportCommand{checkCommand: checkCommand{cluster: c}}
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Write an archive for an issue, without passwords and messages",
		Long: "Write an archive that you can attach to an issue: the versions, the output of `kubectl warren check`, and the " +
			"Deployment, the pods and the logs of the manager. It has the ConsumerQueues, BrokerConnections, Redrives and Purges of the " +
			"namespace, with their status and Events.\n\n" +
			"The command reads no Secret, no ConfigMap and no message. It leaves out labels, annotations other than Warren's, values of " +
			"environment variables, the values and expressions of selectors, and the names of Kubernetes users. It redacts what " +
			"looks like a password. Names of namespaces, queues, exchanges, RabbitMQ users and hosts remain. Read the archive " +
			"before you publish it.\n\n" +
			"The file errors.txt in the archive lists the parts that you may not read.",
		Example: "  # Write warren-report-TIME.tar.gz about the namespace shop\n" +
			"  kubectl warren report --namespace shop\n\n" +
			"  # Write about all namespaces into a file with a name of your own\n" +
			"  kubectl warren report -A --file warren-report.tar.gz",
		Args: usage(cobra.NoArgs),
	}
	cmd.Flags().BoolVarP(&r.all, "all-namespaces", "A", false, "report the resources of all namespaces")
	cmd.Flags().StringVar(&r.file, "file", "", "write to this file (default warren-report-TIME.tar.gz)")
	cmd.Flags().BoolVar(&r.force, "force", false, "replace the file, and FILE.part, if they exist")
	r.api.add(cmd, c)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r.isWarrenNamespaceGiven = cmd.Flags().Changed("warren-namespace")
		return r.run(cmd.Context(), time.Now())
	}
	return cmd
}

func (r *reportCommand) run(ctx context.Context, now time.Time) error {
	if r.file == "" {
		r.file = "warren-report-" + now.UTC().Format("20060102T150405Z") + ".tar.gz"
	}
	if err := checkAbsent(r.force, r.file, partOf(r.file)); err != nil {
		return err
	}
	reader, err := r.newCheckReader()
	if err != nil {
		return err
	}
	results, err := reader.installation(ctx)
	if err != nil {
		return err
	}
	made := &reporter{checkReader: reader, bundle: newBundle(now)}
	if err := made.collect(ctx, results); err != nil {
		return err
	}
	content, err := made.bundle.close()
	if err != nil {
		return err
	}
	err = writeFile(r.file, r.force, func(out *os.File) error {
		_, err := out.Write(content)
		return err
	})
	if err != nil {
		return err
	}
	printMissing(r.ErrOut, made.missing)
	printf(r.Out, "Wrote %s. Read it before you publish it: it contains the names of namespaces, queues and hosts.\n", r.file)
	return nil
}

// printMissing prints which parts a report lacks, and why.
func printMissing(out io.Writer, parts []string) {
	for _, part := range parts {
		printf(out, "The report lacks %s\n", part)
	}
}
