package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/printable"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/topology"
)

type contractCommand struct {
	*cluster
	offlineFlags

	check string
}

func newContract(c *cluster) *cobra.Command {
	k := &contractCommand{cluster: c}
	cmd := &cobra.Command{
		Use:   "contract (NAME | [NAME] -f FILE --broker-version VERSION)",
		Short: "Print the contract of a ConsumerQueue, which its consumers read",
		Long: "Print the contract of a ConsumerQueue as JSON: where a failed message waits, and how many attempts it has. The consumer " +
			"library and consumers in other languages read this JSON from a file.\n\n" +
			"With --check, the command prints nothing if the file has the current contract. Otherwise the exit code is 2, and the " +
			"contract is on stderr.",
		Example: "  kubectl warren contract orders >contract.json\n" +
			"  kubectl warren contract -f orders.yaml --broker-version 4.3 --check contract.json",
		Args:              usage(cobra.MaximumNArgs(1)),
		ValidArgsFunction: c.completeConsumerQueue,
		RunE:              func(cmd *cobra.Command, args []string) error { return k.run(cmd.Context(), args) },
	}
	k.add(cmd, "ConsumerQueue", "of the broker", "contract")
	cmd.Flags().StringVar(&k.check, "check", "", "compare the contract with this file")
	return cmd
}

func (k *contractCommand) run(ctx context.Context, args []string) error {
	if err := k.checkBrokerVersion(); err != nil {
		return err
	}
	if !k.files.given() && len(args) == 0 {
		return usageError("give either the NAME of a ConsumerQueue or -f FILE; see kubectl warren contract --help")
	}
	cq, err := k.find(ctx, args)
	if err != nil {
		return err
	}
	made, err := topology.ContractOf(cq.ConsumerQueue, cq.vhost, cq.version)
	if err != nil {
		return refused(cq.ConsumerQueue, err)
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

// find returns the ConsumerQueue that the argument names. Without an argument, the files must contain exactly one.
func (k *contractCommand) find(ctx context.Context, args []string) (located, error) {
	queues, err := k.queues(ctx, k.cluster, args)
	if err != nil {
		return located{}, err
	}
	if len(args) == 0 && len(queues) > 1 {
		return located{}, usageError("the files of -f have %d ConsumerQueues: name one", len(queues))
	}
	at := slices.IndexFunc(queues, func(cq located) bool { return len(args) == 0 || cq.Name == args[0] })
	if at < 0 {
		return located{}, fmt.Errorf("the files of -f have no ConsumerQueue %q", args[0])
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
