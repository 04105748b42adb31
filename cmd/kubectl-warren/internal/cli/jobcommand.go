package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
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
)

// jobCommand is the common part of `dlq redrive` and `dlq purge`: both count with a dry run, ask, create a job and follow it.
type jobCommand struct {
	*cluster
	genericiooptions.IOStreams

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

func (c *jobCommand) validate() error {
	if !slices.Contains([]string{dryRunNone, dryRunServer, dryRunClient}, c.dryRun) {
		return usageError("--dry-run is %q: want none, server or client", c.dryRun)
	}
	return c.output.validate()
}

// begin connects, and checks that the ConsumerQueue exists.
func (c *jobCommand) begin(ctx context.Context, consumerQueue string) (session, error) {
	c.say = c.Out
	if c.output.format != formatTable {
		c.say = c.ErrOut
	}
	kube, _, err := c.openQueue(ctx, consumerQueue)
	return kube, err
}

// requester returns the user's name at the API server.
func (c *jobCommand) requester(ctx context.Context, kube session) (string, error) {
	name, err := kube.username(ctx)
	if err != nil {
		return "", fmt.Errorf("cannot read your user name from the API server for spec.requestedBy: %w", err)
	}
	return name, nil
}

// generated returns the metadata of a job. The API server completes the name.
func generated(namespace, consumerQueue string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, GenerateName: consumerQueue + "-"}
}

// count creates a dry run, waits until it has counted, and deletes it.
func (c *jobCommand) count(ctx context.Context, kube session, dryRun job) (job, error) {
	jobs.MakeDryRun(dryRun.object())
	if err := kube.Create(ctx, dryRun.object()); err != nil {
		return nil, err
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if err := client.IgnoreNotFound(kube.Delete(ending, dryRun.object())); err != nil {
			printf(c.ErrOut, "could not delete the dry run %s %q: %v\n", dryRun.kind(), dryRun.object().GetName(), err)
		}
	}()
	progress := &progress{out: c.ErrOut, terminal: isTerminal(c.ErrOut)}
	counted, err := kube.await(ctx, dryRun, func(now job) bool {
		if outcomeOf(now).IsOver() {
			return true
		}
		progress.show(now, time.Now())
		return false
	}, c.ErrOut)
	progress.end()
	if err == nil && counted == nil {
		err = errors.New("stopped while counting; all messages stay in the queue")
	}
	return counted, err
}

// sayCount prints the count of a dry run. It returns an error if the dry run could not count.
func (c *jobCommand) sayCount(counted job, consumerQueue string) error {
	outcome := outcomeOf(counted)
	if !outcome.HasCounted() {
		return fmt.Errorf("the dead letters of ConsumerQueue %q cannot be counted: %s", consumerQueue, readyText(counted))
	}
	printf(c.say, "Queue %s: %s.\n", counted.status().Source, messageOf(counted))
	if outcome == jobs.Incomplete {
		printf(c.ErrOut, "Not all messages were counted: %s.\n", counted.counts())
	}
	if failed := counted.status().Skipped["NotEvaluated"]; failed > 0 {
		printf(c.ErrOut, "The expression of --expression failed on %s, which stay in the queue. To see the error: "+
			"`kubectl warren dlq peek %s` with the same --expression.\n", messages(failed), consumerQueue)
	}
	return nil
}

// endCount ends a command that only counts, or for which no message matches. It prints the dry run, which is already deleted.
func (c *jobCommand) endCount(counted job) error {
	if err := c.print(counted); err != nil {
		return err
	}
	if outcomeOf(counted) == jobs.Incomplete {
		return &exit{code: exitIncomplete}
	}
	return nil
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
func (c *jobCommand) carryOut(ctx context.Context, kube session, created job) error {
	if err := kube.Create(ctx, created.object()); err != nil {
		return err
	}
	printf(c.ErrOut, "%s %s/%s created.\n", created.kind(), created.object().GetNamespace(), created.object().GetName())
	if c.detach {
		return c.print(created)
	}
	last, ends := follow(ctx, kube, genericiooptions.IOStreams{Out: c.say, ErrOut: c.ErrOut}, created)
	if last == nil {
		last = created
	}
	return errors.Join(c.print(last), ends)
}

// print prints a job in the format of -o. It prints nothing for a table, because sentences have described the outcome.
func (c *jobCommand) print(j job) error {
	if c.output.format == formatName {
		printf(c.Out, "%s\n", resourceNameOf(j))
		return nil
	}
	_, err := c.output.printed(c.Out, typed(j))
	return err
}

// resourceNameOf returns the name for -o name.
func resourceNameOf(j job) string {
	return strings.ToLower(j.kind()) + "." + v1alpha1.GroupVersion.Group + "/" + cmp.Or(j.object().GetName(), j.object().GetGenerateName())
}

// typed returns the object of a job as the API server prints it.
func typed(j job) client.Object {
	object := j.object()
	object.GetObjectKind().SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(j.kind()))
	object.SetManagedFields(nil)
	return object
}

// printManifest prints the job that the command would create, without a request to the API server. YAML is the default.
func (c *jobCommand) printManifest(j job) error {
	namespace, err := c.namespace()
	if err != nil {
		return err
	}
	j.object().SetNamespace(namespace)
	if c.output.format == formatName {
		printf(c.Out, "%s\n", resourceNameOf(j))
		return nil
	}
	if c.output.format == formatTable {
		c.output.format = formatYAML
	}
	manifest, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed(j))
	if err != nil {
		return err
	}
	unstructured.RemoveNestedField(manifest, "status")
	_, err = c.output.printed(c.Out, manifest)
	return err
}

func messages(count int64) string {
	if count == 1 {
		return "1 message"
	}
	return fmt.Sprintf("%d messages", count)
}
