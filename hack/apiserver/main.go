// Command apiserver runs a kube-apiserver with Warren's CRDs for all suites of a test run. It stores its files in the directory
// given as argument, writes the kubeconfig there when the server is ready, and stops on SIGINT or SIGTERM.
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
	_ = server.Stop() // the watchers of an interrupted run delay the server's shutdown
	return nil
}
