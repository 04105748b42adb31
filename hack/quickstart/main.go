// Command quickstart shows Warren on a real API server and RabbitMQ: it starts a Kubernetes API server, runs the operator, takes
// a tour of the main features, and runs until it is interrupted. With ONESHOT=1 it exits after the tour. It fails unless each
// step of the tour was observed.
//
// "make run" starts it and provides KUBEBUILDER_ASSETS, WARREN_TEST_BROKERS and bin/manager.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/testenv/controlplane"
	"github.com/warren-mq/warren/test/testenv/process"
	"github.com/warren-mq/warren/test/testenv/program"
)

// managerLog is the path of the operator's log.
const managerLog = "bin/manager.log"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := program.Run(ctx, run); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "\nquickstart:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

func run(p *program.Program) error {
	kubeConfig, err := filepath.Abs("bin/kubeconfig")
	if err != nil {
		return err
	}
	vhost := brokers.Newest(p).VHost(p, "quickstart")
	say("Starting a Kubernetes API server and etcd")
	server, err := controlplane.Start(p.TempDir(), "")
	if err != nil {
		return err
	}
	p.Cleanup(func() { _ = server.Stop() }) // if kubectl still watches, envtest kills the server
	if err := os.WriteFile(kubeConfig, server.Environment.KubeConfig, 0o600); err != nil {
		return err
	}
	deadLetters, err := process.FreeAddress()
	if err != nil {
		return err
	}
	tour := &tour{tb: p, server: server, vhost: vhost, deadLetters: deadLetters}
	tour.install()
	say("Starting the operator; its log is in %s", managerLog)
	operator, err := process.StartLogged(process.Manager("bin/manager", kubeConfig, "--dead-letters-bind-address="+deadLetters), managerLog)
	if err != nil {
		return err
	}
	p.Cleanup(func() { _ = operator.Stop() })
	tour.run()
	if os.Getenv("ONESHOT") != "" {
		say("Each step was observed.")
		return nil
	}
	say("Try more in another terminal:\n\n"+
		"    export KUBECONFIG=%s\n"+
		"    kubectl get consumerqueues -o wide\n"+
		"    kubectl explain consumerqueue.spec.retry\n"+
		"    kubectl describe consumerqueue orders\n\n"+
		"Run a consumer in Go. -chaos closes its connections, Ctrl-C drains it:\n\n"+
		"    kubectl apply -f examples/orders/consumerqueue.yaml\n"+
		"    bin/kubectl-warren contract -f examples/orders/consumerqueue.yaml --broker-version 4.3 --vhost %s > bin/shipping.json\n"+
		"    AMQP_URL=%s WARREN_CONTRACT=bin/shipping.json go run ./examples/orders -chaos\n\n"+
		"RabbitMQ's management page, virtual host %q: %s\n\n"+
		"Ctrl-C stops the operator and the API server; make clean-env stops the broker.",
		kubeConfig, vhost.Name, uri(vhost), vhost.Name, vhost.Broker.ManagementURI)
	select {
	case <-p.Context().Done():
		fmt.Println()
		return nil
	case <-operator.Ended:
		return fmt.Errorf("the operator exited (%w), see %s", operator.Err(), managerLog)
	}
}

// say prints a heading of the tour.
func say(format string, args ...any) {
	fmt.Printf("\n\033[1m%s\033[0m\n", fmt.Sprintf(format, args...))
}

// uri returns the AMQP URI of a virtual host. The only password in it is RabbitMQ's default.
func uri(vhost *brokers.VHost) string {
	credentials := "USER:PASSWORD"
	if vhost.Broker.Username == "guest" && vhost.Broker.Password == "guest" {
		credentials = "guest:guest"
	}
	return strings.Replace(vhost.Broker.AMQPURI, "://", "://"+credentials+"@", 1) + "/" + vhost.Name
}
