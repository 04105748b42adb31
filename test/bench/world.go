package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/testenv/program"
)

// world is the measured system: an API server, a broker and, from the creation on, a manager, all of them new.
type world struct {
	program   *program.Program
	given     *settings
	count     int
	layout    layout
	server    *apiServer
	broker    *brokers.Private
	brokerPID int
	vhost     *brokers.VHost // the vhost of the broker's events
	manager   *manager       // nil before the creation
	leader    *manager       // nil except in the takeover phase, where manager is the standby
	resources *tracker
	profiles  string        // address of the manager's profiles; empty if no manager runs
	declaring time.Duration // the broker's time without a manager; 0 until measured
	deleting  time.Duration
	writing   time.Duration // the API server's time for the creation without a manager; 0 until measured
}

func newWorld(p *program.Program, given *settings, count int, shared layout) (*world, error) {
	w := &world{program: p, given: given, count: count, layout: shared}
	progress("%d ConsumerQueues, %s: starting a broker and an API server", count, shared.name)
	if err := w.startBroker(); err != nil {
		return nil, err
	}
	var err error
	w.server, err = startAPIServer(p, given.crds)
	return w, err
}

// startBroker starts a broker that may use half of the machine's memory, because thousands of queues need more than the test
// brokers have. The tick interval applies to quorum queues that are declared from then on.
func (w *world) startBroker() error {
	memory, err := machineMemory()
	if err != nil {
		return err
	}
	w.broker = brokers.NewPrivate(w.program)
	w.brokerPID, w.vhost = w.broker.PID(), w.broker.Broker.VHost(w.program, "/")
	w.broker.Eval(fmt.Sprintf("vm_memory_monitor:set_vm_memory_high_watermark({absolute,%d}).", memory/2))
	w.broker.Eval(fmt.Sprintf("application:set_env(rabbit, quorum_tick_interval, %d).", w.given.tick.Milliseconds()))
	return nil
}

// begin starts the manager and connects it to the broker.
func (w *world) begin(ctx context.Context) (err error) {
	if w.resources, err = startTracker(ctx, w.server); err != nil {
		return err
	}
	if err = w.startManager(); err != nil {
		return err
	}
	return w.connect(ctx)
}

// renewAPIServer replaces the API server with a new, empty one.
func (w *world) renewAPIServer() (err error) {
	_ = w.server.Stop() // envtest may have to kill the server
	w.server, err = startAPIServer(w.program, w.given.crds)
	return err
}

// brokerConnection reads the BrokerConnection.
func (w *world) brokerConnection(ctx context.Context) (*v1alpha1.BrokerConnection, error) {
	connection := &v1alpha1.BrokerConnection{}
	err := w.server.Get(ctx, client.ObjectKey{Namespace: namespace, Name: connectionName}, connection)
	return connection, err
}

// connectionName is the name of the BrokerConnection.
const connectionName = "default"

// connect creates the BrokerConnection and waits until it is Ready.
func (w *world) connect(ctx context.Context) error {
	for _, object := range []client.Object{
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "rabbitmq"},
			Data: map[string][]byte{
				"username": []byte(w.vhost.Broker.Username), "password": []byte(w.vhost.Broker.Password),
				"amqpURI": []byte(w.vhost.Broker.AMQPURI), "managementURI": []byte(w.vhost.Broker.ManagementURI),
			},
		},
		&v1alpha1.BrokerConnection{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: connectionName},
			Spec: v1alpha1.BrokerConnectionSpec{
				VHost: w.vhost.Name, SecretRef: &v1alpha1.LocalObjectReference{Name: "rabbitmq"},
				ResyncInterval: v1alpha1.Duration(w.given.interval.String()),
			},
		},
	} {
		if err := w.server.Create(ctx, object); err != nil {
			return err
		}
	}
	return w.until(ctx, "the BrokerConnection is Ready", 1, func() int {
		connection, err := w.brokerConnection(ctx)
		if err != nil || !isReady(connection.Status.Conditions) {
			return 0
		}
		return 1
	})
}

// timeLimit is longer than any phase.
const timeLimit = time.Hour

// until waits until a number has been reached.
func (w *world) until(ctx context.Context, what string, wanted int, count func() int) error {
	found := 0
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, timeLimit, true, func(context.Context) (bool, error) {
		if !w.manager.runs() {
			return false, errors.New("the manager exited")
		}
		found = count()
		return found >= wanted, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until %s (%d of %d): %w", what, found, wanted, err)
	}
	return nil
}

func isReady(conditions []metav1.Condition) bool {
	return meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionReady)
}

// parallel is how many requests the benchmark sends at the same time.
const parallel = 16

// forEach calls a function for each number below count, several at a time, and returns the first error.
func forEach(count int, do func(number int) error) error {
	var all errgroup.Group
	all.SetLimit(parallel)
	for number := range count {
		all.Go(func() error { return do(number) })
	}
	return all.Wait()
}
