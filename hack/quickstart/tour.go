package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/testenv/controlplane"
)

// tour shows a new user what Warren does, step by step. Each step fails unless its claim was observed.
type tour struct {
	tb     brokers.TB
	server *controlplane.Server
	vhost  *brokers.VHost // install creates it
	// deadLetters is the address of the operator's dead-letter API.
	deadLetters string
}

func (t *tour) install() {
	say("Installing the custom resources")
	t.show("apply", "--server-side", "-k", "config/crd")
	t.vhost.Delete()
	t.vhost.Create()
	t.kubectl(t.connection(), "apply", "-f", "-")
}

// connection returns the BrokerConnection with its Secret. The resync interval is short to keep the tour short.
func (t *tour) connection() string {
	broker := t.vhost.Broker
	return fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: rabbitmq}
stringData: {username: %q, password: %q, amqpURI: %q, managementURI: %q}
---
apiVersion: messaging.warren.dev/v1alpha1
kind: BrokerConnection
metadata: {name: default}
spec: {vhost: %q, resyncInterval: 2s, secretRef: {name: rabbitmq}}
`, broker.Username, broker.Password, broker.AMQPURI, broker.ManagementURI, t.vhost.Name)
}

func (t *tour) run() {
	t.declare()
	t.drift()
	t.redrive()
	t.recreation()
}

// expected is the full topology of the sample, which names no object of it.
var expected = []string{"orders", "orders.dlq", "orders.retry.30m", "orders.retry.30s", "orders.retry.5m"}

func (t *tour) declare() {
	say("A ConsumerQueue of six lines")
	sample, err := os.ReadFile("config/samples/quickstart.yaml")
	if err != nil {
		t.tb.Fatal(err)
	}
	fmt.Print(string(sample))
	t.show("apply", "-f", "config/samples/quickstart.yaml")
	t.show("wait", "--for=condition=Ready", "consumerqueue/orders", "--timeout=60s")
	t.show("get", "consumerqueues", "-o", "wide")
	say("The operator created these objects")
	found := t.vhost.Definitions()
	printDefinitions(found)
	if err := expectQueues(found); err != nil {
		t.fatalf("%v", err)
	}
}

func (t *tour) drift() {
	const deleted = "orders.retry.5m"
	say("Drift: queue %s is deleted at the broker", deleted)
	t.vhost.DeleteQueue(deleted)
	t.until("queue "+deleted+" was not recreated", func() error { return expectQueues(t.vhost.Definitions()) })
	fmt.Println("The operator recreated it. The Events:")
	t.until("no Event reports the drift", func() error {
		events, err := t.server.Kubectl(t.tb.Context(), "", "get", "events.events.k8s.io")
		for _, reason := range []string{"DriftDetected", "DriftCorrected"} {
			if err == nil && !strings.Contains(events, reason) {
				err = fmt.Errorf("no Event has the reason %s", reason)
			}
		}
		return err
	})
	t.show("get", "events.events.k8s.io", "-o", "custom-columns=TYPE:.type,REASON:.reason,OBJECT:.regarding.name,NOTE:.note")
}

func (t *tour) recreation() {
	say("Recreation: the spec gets a message TTL of five minutes, which RabbitMQ cannot set on an existing queue")
	t.show("patch", "consumerqueue", "orders", "--type=merge", "-p",
		`{"spec":{"recreatePolicy":"Migrate","recreation":{"approval":"Automatic"},"queue":{"messageTTL":"5m"}}}`)
	t.until("no Event reports that the queue was recreated", func() error {
		events, err := t.server.Kubectl(t.tb.Context(), "", "get", "events.events.k8s.io")
		if err == nil && !strings.Contains(events, "RecreationFinished") {
			err = errors.New("there is no RecreationFinished")
		}
		return err
	})
	t.show("get", "events.events.k8s.io", "-o", "custom-columns=TYPE:.type,REASON:.reason,OBJECT:.regarding.name,NOTE:.note")
	t.show("wait", "--for=condition=Ready", "consumerqueue/orders", "--timeout=60s")
	t.show("get", "consumerqueues", "-o", "wide")
	for _, queue := range t.vhost.Definitions().Queues {
		if ttl := fmt.Sprint(queue.Arguments["x-message-ttl"]); queue.Name == "orders" && ttl != "300000" {
			t.fatalf("queue orders has x-message-ttl %s", ttl)
		}
	}
	fmt.Println("The queue has the new TTL, and its messages.")
}

// show runs kubectl and prints the command and its output.
func (t *tour) show(args ...string) {
	fmt.Println("$ kubectl", shell(args))
	fmt.Print(t.kubectl("", args...))
}

// kubectl runs kubectl with an input and returns its output.
func (t *tour) kubectl(input string, args ...string) string {
	output, err := t.server.Kubectl(t.tb.Context(), input, args...)
	if err != nil {
		t.fatalf("%v", err)
	}
	return output
}

// until repeats a check until it returns no error, for at most a minute.
func (t *tour) until(what string, check func() error) {
	var last error
	err := wait.PollUntilContextTimeout(t.tb.Context(), 200*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		last = check()
		return last == nil, nil
	})
	if err != nil {
		t.fatalf("%s: %v", what, last)
	}
}

// fatalf ends the tour and names the operator's log.
func (t *tour) fatalf(format string, args ...any) {
	t.tb.Fatalf(format+"\nThe operator's log: "+managerLog, args...)
}

// shell joins arguments to a command line that can be pasted.
func shell(args []string) string {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = arg
		if strings.ContainsAny(arg, "{}\" $*") {
			words[i] = "'" + arg + "'"
		}
	}
	return strings.Join(words, " ")
}

// expectQueues returns an error unless the broker has exactly the expected queues.
func expectQueues(found brokers.Definitions) error {
	names := make([]string, 0, len(found.Queues))
	for _, queue := range found.Queues {
		names = append(names, queue.Name)
	}
	if !slices.Equal(names, expected) {
		return fmt.Errorf("the broker has the queues %v instead of %v", names, expected)
	}
	return nil
}

func printDefinitions(found brokers.Definitions) {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, queue := range found.Queues {
		fmt.Fprintf(table, "queue\t%s\t%s\n", queue.Name, sentence(queue.Arguments))
	}
	for _, exchange := range found.Exchanges {
		fmt.Fprintf(table, "exchange\t%s\t%s\n", exchange.Name, exchange.Type)
	}
	for _, binding := range found.Bindings {
		fmt.Fprintf(table, "binding\t%s\t→ %s\n", binding.Source, binding.Destination)
	}
	_ = table.Flush()
}

// sentence formats arguments in order, without their common prefix x-.
func sentence(arguments map[string]any) string {
	parts := make([]string, 0, len(arguments))
	for _, name := range slices.Sorted(maps.Keys(arguments)) {
		value, err := json.Marshal(arguments[name])
		if err != nil {
			value = []byte("?")
		}
		parts = append(parts, strings.TrimPrefix(name, "x-")+"="+strings.Trim(string(value), `"`))
	}
	return strings.Join(parts, " ")
}
