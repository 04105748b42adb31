package cli

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// completeConsumerQueue completes the first argument with names of ConsumerQueues.
func (c *cluster) completeConsumerQueue(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.completeConsumerQueues(cmd, args, "")
}

// completeConsumerQueues completes any argument with names of ConsumerQueues.
func (c *cluster) completeConsumerQueues(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return c.completeListed(&v1alpha1.ConsumerQueueList{}, true)(cmd, nil, "")
}

// completeDestination completes --to of a Redrive.
func (c *cluster) completeDestination(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	const toQueue = "consumerqueue/"
	if !strings.HasPrefix(begun, toQueue) {
		return []cobra.Completion{"main", "retry", "original", toQueue},
			cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	names, directive := c.completeConsumerQueues(cmd, nil, "")
	for i, name := range names {
		names[i] = toQueue + name
	}
	return names, directive
}

// completeContexts completes --context with the contexts of the kubeconfig.
func (c *cluster) completeContexts(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	config, err := c.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return slices.Sorted(maps.Keys(config.Contexts)), cobra.ShellCompDirectiveNoFileComp
}

// completeListed returns a completion with the names of listed objects. If inNamespace is true, it lists only the namespace of the command.
func (c *cluster) completeListed(
	list client.ObjectList, inNamespace bool,
) func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		kube, err := c.open()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		if err := kube.List(cmd.Context(), list, kube.inNamespace(!inNamespace)...); err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var names []string
		_ = meta.EachListItem(list, func(object runtime.Object) error {
			names = append(names, object.(client.Object).GetName())
			return nil
		})
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
