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
)

// tour is what a newcomer should see, step by step. Each step fails unless what it tells is so.
type tour struct {
	kubectl func(ctx context.Context, input string, args ...string) (string, error)
	broker  *broker
	// deadLetters is where the operator serves the dead-letter API.
	deadLetters string
}

func (t *tour) install(ctx context.Context) error {
	say("Installing the custom resources")
	if err := t.show(ctx, "apply", "--server-side", "-k", "config/crd"); err != nil {
		return err
	}
	if err := t.broker.freshVHost(ctx); err != nil {
		return fmt.Errorf("make vhost %q: %w", vhost, err)
	}
	_, err := t.kubectl(ctx, t.connection(), "apply", "-f", "-")
	return err
}

// connection is how the operator reaches the broker; the interval is short, so that nobody has to wait.
func (t *tour) connection() string {
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
`, t.broker.username, t.broker.password, t.broker.amqp, t.broker.management, vhost)
}

func (t *tour) take(ctx context.Context) error {
	for _, step := range []func(context.Context) error{t.declare, t.drift, t.redrive, t.recreation} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// expected is the full topology of the sample, which gives nothing but a name.
var expected = []string{"orders", "orders.dlq", "orders.retry.30m", "orders.retry.30s", "orders.retry.5m"}

func (t *tour) declare(ctx context.Context) error {
	say("A ConsumerQueue of five lines")
	sample, err := os.ReadFile("config/samples/quickstart.yaml")
	if err != nil {
		return fmt.Errorf("read the sample: %w", err)
	}
	fmt.Print(string(sample))
	for _, args := range [][]string{
		{"apply", "-f", "config/samples/quickstart.yaml"},
		{"wait", "--for=condition=Ready", "consumerqueue/orders", "--timeout=60s"},
		{"get", "consumerqueues", "-o", "wide"},
	} {
		if err := t.show(ctx, args...); err != nil {
			return err
		}
	}
	say("… has become, at the broker")
	found, err := t.broker.definitions(ctx)
	if err != nil {
		return err
	}
	printDefinitions(found)
	if names := queueNames(found); !slices.Equal(names, expected) {
		return fmt.Errorf("the broker has the queues %v, not %v", names, expected)
	}
	return nil
}

func (t *tour) drift(ctx context.Context) error {
	const gone = "orders.retry.5m"
	say("Drift: somebody deletes queue %s", gone)
	if err := t.broker.deleteQueue(ctx, gone); err != nil {
		return err
	}
	err := until(ctx, "queue "+gone+" did not come back", func(ctx context.Context) error {
		found, err := t.broker.definitions(ctx)
		if err == nil && !slices.Equal(queueNames(found), expected) {
			err = fmt.Errorf("the broker has the queues %v", queueNames(found))
		}
		return err
	})
	if err != nil {
		return err
	}
	fmt.Println("It is back. What was noticed:")
	err = until(ctx, "no Event tells of it", func(ctx context.Context) error {
		told, err := t.kubectl(ctx, "", "get", "events.events.k8s.io")
		for _, reason := range []string{"DriftDetected", "DriftCorrected"} {
			if err == nil && !strings.Contains(told, reason) {
				err = fmt.Errorf("there is no %s", reason)
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	return t.show(ctx, "get", "events.events.k8s.io", "-o",
		"custom-columns=TYPE:.type,REASON:.reason,OBJECT:.regarding.name,NOTE:.note")
}

// awaitMessages waits until a queue has so many messages. The broker's statistics are seconds old.
func (t *tour) awaitMessages(ctx context.Context, queue string, count int) error {
	return until(ctx, fmt.Sprintf("queue %s has not got %d messages", queue, count), func(ctx context.Context) error {
		ready, err := t.broker.messages(ctx, queue)
		if err == nil && ready != count {
			err = fmt.Errorf("the broker counts %d", ready)
		}
		return err
	})
}

func (t *tour) recreation(ctx context.Context) error {
	say("Recreation: a message TTL of five minutes is asked for, which an existing queue cannot be given")
	if err := t.show(ctx, "patch", "consumerqueue", "orders", "--type=merge", "-p", `{"spec":{"queue":{"messageTTL":"5m"}}}`); err != nil {
		return err
	}
	if err := t.show(ctx, "wait", "--for=condition=RecreationRequired", "consumerqueue/orders", "--timeout=60s"); err != nil {
		return err
	}
	if err := t.show(ctx, "get", "consumerqueues", "-o", "wide"); err != nil {
		return err
	}
	changes, err := t.kubectl(ctx, "", "get", "consumerqueue", "orders", "-o", "jsonpath={.status.changes[*].message}")
	if err != nil {
		return err
	}
	fmt.Println("status.changes:", changes)
	if want := "x-message-ttl is not set, should be 300000"; !strings.Contains(changes, want) {
		return fmt.Errorf("status.changes does not say %q", want)
	}
	found, err := t.broker.definitions(ctx)
	if err != nil {
		return err
	}
	for _, queue := range found.Queues {
		if _, changed := queue.Arguments["x-message-ttl"]; changed && queue.Name == "orders" {
			return errors.New("queue orders was touched")
		}
	}
	fmt.Println("Nothing was touched. The field is taken back:")
	if err := t.show(ctx, "patch", "consumerqueue", "orders", "--type=merge", "-p", `{"spec":{"queue":null}}`); err != nil {
		return err
	}
	return t.show(ctx, "wait", "--for=condition=Ready", "consumerqueue/orders", "--timeout=60s")
}

// show runs kubectl as the newcomer would, and prints command and answer.
func (t *tour) show(ctx context.Context, args ...string) error {
	fmt.Println("$ kubectl", shell(args))
	output, err := t.kubectl(ctx, "", args...)
	fmt.Print(output)
	return err
}

// shell joins arguments so that they can be pasted.
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

func queueNames(found definitions) []string {
	names := make([]string, 0, len(found.Queues))
	for _, queue := range found.Queues {
		names = append(names, queue.Name)
	}
	slices.Sort(names)
	return names
}

func printDefinitions(found definitions) {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	slices.SortFunc(found.Queues, func(a, b queue) int { return strings.Compare(a.Name, b.Name) })
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

// sentence renders arguments in order, without the x- that they all begin with.
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
