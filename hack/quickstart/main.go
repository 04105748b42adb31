// The quickstart shows Warren at work on real parts: it starts a Kubernetes API server, runs the operator against it and
// a RabbitMQ, takes the newcomer's tour, and stays until interrupted. With ONESHOT=1 it ends after the tour. It fails
// unless each step of the tour was really observed.
//
// It is started by "make run", which provides KUBEBUILDER_ASSETS, WARREN_TEST_BROKERS and bin/manager.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "\nquickstart:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

func run(ctx context.Context) error {
	folder, err := filepath.Abs("bin")
	if err != nil {
		return fmt.Errorf("find bin: %w", err)
	}
	broker, err := brokerFromEnvironment()
	if err != nil {
		return err
	}
	say("Starting a Kubernetes API server and etcd")
	cluster, err := startCluster(filepath.Join(folder, "kubeconfig"))
	if err != nil {
		return err
	}
	defer cluster.stop()

	deadLetters, err := freeAddress()
	if err != nil {
		return err
	}
	tour := &tour{kubectl: cluster.kubectl, broker: broker, deadLetters: deadLetters}
	if err := tour.install(ctx); err != nil {
		return err
	}
	say("Starting the operator; its log is in %s", relative(filepath.Join(folder, "manager.log")))
	operator, err := startOperator(folder, cluster.kubeconfig, "--dead-letters-bind-address="+deadLetters)
	if err != nil {
		return err
	}
	defer operator.stop()

	if err := tour.take(ctx); err != nil {
		return fmt.Errorf("%w\nThe operator's log: %s", err, operator.log)
	}
	if os.Getenv("ONESHOT") != "" {
		say("Each step was observed.")
		return nil
	}
	say("Go on by yourself, in another terminal:\n\n"+
		"    export KUBECONFIG=%s\n"+
		"    kubectl get consumerqueues -o wide\n"+
		"    kubectl explain consumerqueue.spec.retry\n"+
		"    kubectl describe consumerqueue orders\n\n"+
		"A consumer in Go; -chaos cuts its connections, Ctrl-C drains it:\n\n"+
		"    kubectl apply -f examples/orders/consumerqueue.yaml\n"+
		"    bin/manager contract -f examples/orders/consumerqueue.yaml --rabbitmq 4.3 --virtual-host %s > bin/shipping.json\n"+
		"    AMQP_URL=%s WARREN_CONTRACT=bin/shipping.json go run ./examples/orders -chaos\n\n"+
		"RabbitMQ's own page, vhost %q: %s\n\n"+
		"Ctrl-C ends the operator and the API server; make clean-env ends the broker.",
		cluster.kubeconfig, vhost, broker.uri(), vhost, broker.management)
	select {
	case <-ctx.Done():
		fmt.Println()
		return nil
	case <-operator.ended:
		return fmt.Errorf("the operator ended by itself (%w); see %s", operator.err, operator.log)
	}
}

// say prints a heading of the tour.
func say(format string, args ...any) {
	fmt.Printf("\n\033[1m%s\033[0m\n", fmt.Sprintf(format, args...))
}

func relative(path string) string {
	folder, err := os.Getwd()
	if err != nil {
		return path
	}
	if short, err := filepath.Rel(folder, path); err == nil {
		return short
	}
	return path
}

// until asks again and again, for a minute at most, until there is no error.
func until(ctx context.Context, what string, observed func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		err := observed(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, err)
		case <-tick.C:
		}
	}
}
