// The program apiserver runs a kube-apiserver that has Warren's CRDs, for all suites of a test run. It keeps its files in
// the folder that its argument names, writes the kubeconfig there when the server is ready, and stops at SIGINT or SIGTERM.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/go-logr/logr"

	"github.com/warren-mq/warren/test/testenv/controlplane"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log.SetLogger(logr.Discard())
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "apiserver:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

func run(ctx context.Context, arguments []string) error {
	if len(arguments) != 1 {
		return errors.New("usage: apiserver FOLDER")
	}
	server, err := controlplane.Start(arguments[0], filepath.Join("config", "crd", "bases"))
	if err != nil {
		return err
	}
	<-ctx.Done()
	_ = server.Stop() // watchers of a run that was interrupted keep the server from stopping by itself
	return nil
}
