package cli

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/deadletterclient"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/ui"
)

func newUI(c *cluster) *cobra.Command {
	api, port := apiFlags{}, uint16(0)
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Browse dead letters in a web browser, and move them back",
		Long: "Serve web pages on 127.0.0.1 until Ctrl-C. They show dead-letter queues, groups of dead letters and single messages, and " +
			"can move or delete dead letters. The pages act with your own kubeconfig, and install nothing in the cluster. " +
			"The printed URL works once, in one browser.",
		Example: "  kubectl warren ui --namespace shop",
		Args:    usage(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return serveUI(cmd.Context(), c, api, port) },
	}
	cmd.Flags().Uint16Var(&port, "port", 0, "the port on 127.0.0.1; zero chooses a free port")
	api.add(cmd, c)
	return cmd
}

func serveUI(ctx context.Context, c *cluster, api apiFlags, port uint16) error {
	kube, err := c.open()
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return fmt.Errorf("cannot listen on port %d: %w. Set --port to another port, or to 0 for a free one", port, err)
	}
	server := ui.NewServer(ui.Config{
		Kube: kube.WithWatch, Namespace: kube.namespace, Username: kube.username, Explain: explain,
		DeadLetters: func(ctx context.Context, namespace string) (*deadletterclient.Client, error) {
			return c.deadLettersOf(ctx, namespace, api, func(string) {})
		},
	}, listener.Addr().String())
	printf(c.Out, "%s\n", server.URL())
	printf(c.ErrOut, "Serving pages until Ctrl-C. The URL works once, in one browser.\n")
	return server.Serve(ctx, listener)
}
