package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/jobs"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/printable"
	"github.com/warren-mq/warren/internal/text"
)

// jobCommand is the common part of `dlq redrive` and `dlq purge`: both count with a dry run, ask, create a job and follow it.
type jobCommand struct {
	*cluster

	output *output
	// say is the stream for sentences: stdout, or stderr if the output format prints the job to stdout.
	say         io.Writer
	yes, detach bool
	dryRun      string
}

// The values of --dry-run.
const (
	dryRunNone   = "none"
	dryRunServer = "server"
	// dryRunClient prints the manifest without sending it.
	dryRunClient = "client"
)

func (c *jobCommand) addFlags(cmd *cobra.Command, kind string) {
	c.output = addOutput(cmd, formatTable, formatJSON, formatYAML, formatName)
	cmd.Flags().BoolVarP(&c.yes, "yes", "y", false, "skip the confirmation")
	cmd.Flags().StringVar(&c.dryRun, "dry-run", dryRunNone, "server (if no value is given) only counts the messages; client prints the "+
		"manifest of the "+kind+" without sending it")
	cmd.Flags().Lookup("dry-run").NoOptDefVal = dryRunServer
	_ = cmd.RegisterFlagCompletionFunc("dry-run", cobra.FixedCompletions(
		[]string{dryRunNone, dryRunServer, dryRunClient}, cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().BoolVar(&c.detach, "detach", false, "do not wait until the "+kind+" ends")
}

// prepare connects, sets the user's name at the API server, and counts the messages. newJob returns the job in a namespace. The count is
// nil if the command only prints the manifest.
func (c *jobCommand) prepare(
	ctx context.Context, consumerQueue string, requestedBy *string, newJob func(namespace string) client.Object,
) (kube session, counted *jobs.Job, err error) {
	switch c.dryRun {
	case dryRunClient:
		return kube, nil, c.printManifest(newJob(""))
	case dryRunNone, dryRunServer:
	default:
		return kube, nil, usageError("--dry-run is %q: must be none, server or client", c.dryRun)
	}
	c.say = c.Out
	if c.output.format != formatTable {
		c.say = c.ErrOut
	}
	if kube, _, err = c.openQueue(ctx, consumerQueue); err != nil {
		return kube, nil, err
	}
	if *requestedBy, err = kube.username(ctx); err != nil {
		return kube, nil, fmt.Errorf("cannot read your user name from the API server for spec.requestedBy: %w", err)
	}
	counted, err = c.count(ctx, kube, newJob(kube.namespace))
	return kube, counted, err
}

// generated returns the metadata of a job. The API server completes the name.
func generated(namespace, consumerQueue string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, GenerateName: consumerQueue + "-"}
}

// count creates a dry run, waits until it has counted, and deletes it.
func (c *jobCommand) count(ctx context.Context, kube session, dryRun client.Object) (*jobs.Job, error) {
	jobs.MakeDryRun(dryRun)
	if err := kube.Create(ctx, dryRun); err != nil {
		return nil, err
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if err := client.IgnoreNotFound(kube.Delete(ending, dryRun)); err != nil {
			printf(c.ErrOut, "could not delete the dry run %s %q, which Warren deletes 10 minutes after its end: %v\n",
				jobs.Of(dryRun).Noun(), dryRun.GetName(), err)
		}
	}()
	progress := &progress{out: c.ErrOut, terminal: isTerminal(c.ErrOut)}
	last, err := kube.await(ctx, jobs.Of(dryRun), func(now jobs.Job) bool {
		if now.Outcome.IsSettled() {
			return true
		}
		progress.show(now, time.Now())
		return false
	}, c.ErrOut)
	progress.end()
	if err == nil && last == nil {
		err = errors.New("stopped while counting; all messages stay in the queue")
	}
	return last, err
}

// sayCount prints the count of a dry run. It returns an error if the dry run could not count.
func (c *jobCommand) sayCount(counted jobs.Job, consumerQueue string) error {
	if !counted.Outcome.HasCounted() {
		return fmt.Errorf("the dead letters of ConsumerQueue %q cannot be counted: %s", consumerQueue, readyText(counted))
	}
	printf(c.say, "Queue %s: %s.\n", counted.Source, printable.Text(counted.Message))
	if counted.Outcome == jobs.Incomplete && counted.Examined < counted.Total {
		printf(c.ErrOut, "Not all messages were counted: %s.\n", counted.Counts(decimal))
	}
	if failed := counted.Skipped["NotEvaluated"]; failed > 0 {
		printf(c.ErrOut, "The expression could not be evaluated for %s. Warren skips such messages.\n", text.Count(failed, "message"))
	}
	return nil
}

// endCount ends a command that only counts, or for which no message matches. It prints the dry run, which is already deleted.
func (c *jobCommand) endCount(counted jobs.Job) error {
	return errors.Join(c.print(counted.Object), whyIncomplete(counted))
}

// ask prints a question, and returns the trimmed answer; empty if the command is stopped.
func (c *jobCommand) ask(ctx context.Context, question string) string {
	printf(c.ErrOut, "%s ", question)
	answered := make(chan string, 1)
	go func() { // a read cannot be cancelled, but the process ends soon
		answer, _ := bufio.NewReader(c.In).ReadString('\n')
		answered <- strings.TrimSpace(answer)
	}()
	select {
	case answer := <-answered:
		return answer
	case <-ctx.Done():
		printf(c.ErrOut, "\n")
		return ""
	}
}

// carryOut creates a job and follows it.
func (c *jobCommand) carryOut(ctx context.Context, kube session, counted jobs.Job, object client.Object) error {
	if err := kube.Create(ctx, object); err != nil {
		return err
	}
	created := jobs.Of(object)
	printf(c.ErrOut, "%s %s/%s created.\n", created.Noun(), created.Namespace, created.Name)
	if c.detach {
		return c.print(object)
	}
	last, ends := follow(ctx, kube, genericiooptions.IOStreams{Out: c.say, ErrOut: c.ErrOut}, created)
	if last != nil {
		object = last.Object
	}
	if ends == nil {
		ends = whyIncomplete(counted)
	}
	return errors.Join(c.print(object), ends)
}

// whyIncomplete returns an error if a count may not have seen all messages.
func whyIncomplete(counted jobs.Job) error {
	if counted.Outcome == jobs.Incomplete {
		return &exit{code: exitIncomplete}
	}
	return nil
}

// print prints a job in the format of -o. It prints nothing for a table, because sentences have described the outcome.
func (c *jobCommand) print(object client.Object) error {
	if c.output.format == formatName {
		printf(c.Out, "%s\n", resourceNameOf(object))
		return nil
	}
	_, err := c.output.printed(c.Out, typed(object, jobs.Of(object).Noun()))
	return err
}

// resourceNameOf returns the name for -o name.
func resourceNameOf(object client.Object) string {
	return string(jobs.Of(object).Kind) + "." + v1alpha1.GroupVersion.Group + "/" + cmp.Or(object.GetName(), object.GetGenerateName())
}

// typed returns an object as the API server prints it.
func typed(object client.Object, kind string) client.Object {
	object.GetObjectKind().SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	object.SetManagedFields(nil)
	return object
}

// manifestOf returns an object as a user writes it, without status.
func manifestOf(object client.Object) (map[string]any, error) {
	manifest, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	unstructured.RemoveNestedField(manifest, "status")
	return manifest, err
}

// printManifest prints the job that the command would create, without a request to the API server. YAML is the default.
func (c *jobCommand) printManifest(object client.Object) error {
	namespace, err := c.namespace()
	if err != nil {
		return err
	}
	object.SetNamespace(namespace)
	if c.output.format == formatName {
		printf(c.Out, "%s\n", resourceNameOf(object))
		return nil
	}
	if c.output.format == formatTable {
		c.output.format = formatYAML
	}
	manifest, err := manifestOf(typed(object, jobs.Of(object).Noun()))
	if err != nil {
		return err
	}
	_, err = c.output.printed(c.Out, manifest)
	return err
}
