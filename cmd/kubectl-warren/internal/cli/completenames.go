package cli

import (
	"github.com/spf13/cobra"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// completeConsumerQueue completes the first argument of a command with the names of ConsumerQueues.
func (c *cluster) completeConsumerQueue(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.completeConsumerQueues(cmd, args, "")
}

// completeConsumerQueues completes any argument of a command with the names of ConsumerQueues.
func (c *cluster) completeConsumerQueues(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	kube, err := c.open()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	list, err := kube.consumerQueues(cmd.Context(), false)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return namesOf(list.Items), cobra.ShellCompDirectiveNoFileComp
}

func namesOf(queues []v1alpha1.ConsumerQueue) []string {
	names := make([]string, len(queues))
	for i := range queues {
		names[i] = queues[i].Name
	}
	return names
}
