package cli

import (
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

func newReport(c *cluster, streams genericiooptions.IOStreams) *cobra.Command {
	return &cobra.Command{Use: "report"}
}
