package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/printable"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

type contractCommand struct {
	*cluster

	files                 *files
	version, vhost, check string
}

func newContract(c *cluster) *cobra.Command {
	k := &contractCommand{cluster: c}
	cmd := &cobra.Command{
		Use:   "contract (NAME | [NAME] -f FILE --broker-version VERSION)",
		Short: "Print the contract of a ConsumerQueue, which its consumers read",
		Long: "Print the contract of a ConsumerQueue as JSON: where a failed message waits, and how many attempts it has. The consumer " +
			"library and consumers in other languages read this file.\n\n" +
			"With --check, the command prints nothing if the file has the current contract. Otherwise the exit code is 2, and the " +
			"contract is on stderr.",
		Example: "  kubectl warren contract orders >contract.json\n" +
			"  kubectl warren contract -f orders.yaml --broker-version 4.3 --check contract.json",
		Args:              usage(cobra.MaximumNArgs(1)),
		ValidArgsFunction: c.completeConsumerQueue,
		RunE:              func(cmd *cobra.Command, args []string) error { return k.run(cmd.Context(), args) },
	}
	k.files = addFiles(cmd, "read the ConsumerQueue from files instead of the cluster")
	cmd.Flags().StringVar(&k.version, "broker-version", "", "with -f: the RabbitMQ version of the broker, such as 4.3; "+
		"the command does not contact a cluster")
	cmd.Flags().StringVar(&k.vhost, "vhost", "",
		"the vhost to write into the contract (default that of the BrokerConnection, or / with -f)")
	cmd.Flags().StringVar(&k.check, "check", "", "compare the contract with this file")
	return cmd
}

func (k *contractCommand) run(ctx context.Context, args []string) error {
	if err := k.files.checkBrokerVersion(k.version); err != nil {
		return err
	}
	if !k.files.given() && len(args) == 0 {
		return usageError("want either the NAME of a ConsumerQueue or -f FILE; see kubectl warren contract --help")
	}
	cq, name, version, err := k.find(ctx, args)
	if err != nil {
		return err
	}
	if k.vhost != "" {
		name = k.vhost
	}
	made, err := topology.ContractOf(cq, name, version)
	if err != nil {
		return refused(cq, err)
	}
	document, err := documentOf(made)
	if err != nil {
		return err
	}
	if k.check != "" {
		return k.compare(document)
	}
	printf(k.Out, "%s\n", document)
	return nil
}

// documentOf returns a contract as JSON, with terminal control characters escaped.
func documentOf(made contract.Contract) ([]byte, error) {
	document, err := json.MarshalIndent(made, "", "  ")
	return printable.JSON(document), err
}

// find returns the ConsumerQueue from the cluster or from the files, with its vhost and the version of its broker.
func (k *contractCommand) find(ctx context.Context, args []string) (*v1alpha1.ConsumerQueue, string, vhost.Version, error) {
	if k.files.given() {
		version, err := parseBrokerVersion(k.version)
		if err != nil {
			return nil, "", version, err
		}
		cq, err := k.fromFiles(args)
		return cq, "/", version, err
	}
	kube, err := k.open()
	if err != nil {
		return nil, "", vhost.Version{}, err
	}
	return kube.located(ctx, args[0])
}

// fromFiles returns the ConsumerQueue that the argument names. Without an argument, the files must contain exactly one.
func (k *contractCommand) fromFiles(args []string) (*v1alpha1.ConsumerQueue, error) {
	queues, _, err := k.files.consumerQueues(k.In)
	if err != nil {
		return nil, err
	}
	if len(args) == 0 && len(queues) > 1 {
		return nil, usageError("the files of -f have %d ConsumerQueues: name one", len(queues))
	}
	at := slices.IndexFunc(queues, func(cq *v1alpha1.ConsumerQueue) bool { return len(args) == 0 || cq.Name == args[0] })
	if at < 0 {
		return nil, fmt.Errorf("the files of -f have no ConsumerQueue %q", args[0])
	}
	return queues[at], nil
}

// compare compares the file of --check with a contract. A field that Parse ignores is a difference, because a program may read
// it.
func (k *contractCommand) compare(want []byte) error {
	found, err := os.ReadFile(k.check)
	if err != nil {
		return err
	}
	if _, err := contract.Parse(found); err != nil {
		return fmt.Errorf("file %q: %w", k.check, err)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, bytes.TrimSpace(found), "", "  "); err != nil {
		return fmt.Errorf("file %q: %w", k.check, err)
	}
	if !bytes.Equal(indented.Bytes(), want) {
		return &exit{exitDiffers, fmt.Errorf("file %q is not the current contract; replace it with:\n%s", k.check, want)}
	}
	return nil
}
