package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// world is what is measured: an API server, a broker and, once the creation begins, a manager, all of them fresh.
type world struct {
	given     *settings
	count     int
	layout    layout
	folder    string
	server    *apiServer
	broker    *broker
	manager   *manager // nil until the creation begins
	leader    *manager // nil but for the takeover, in which the manager stands by
	resources *tracker
	profiles  string        // where the manager serves its profiles; empty until there is one
	declaring time.Duration // what the broker takes by itself; 0 until measured
	deleting  time.Duration
	writing   time.Duration // what the API server takes by itself for the creation; 0 until measured
}

func newWorld(ctx context.Context, given *settings, count int, shared layout) (*world, error) {
	w := &world{given: given, count: count, layout: shared}
	progress("%d ConsumerQueues, %s: starting a broker and an API server", count, shared.name)
	if err := w.startServers(ctx); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *world) startServers(ctx context.Context) (err error) {
	if w.folder, err = os.MkdirTemp("", "warren-bench-"); err != nil {
		return err
	}
	if w.broker, err = startBroker(ctx, filepath.Join(w.folder, "broker"), w.given.tick); err != nil {
		return err
	}
	w.server, err = startAPIServer(w.folder, w.given.crds)
	return err
}

// begin starts the manager, and connects it to the broker.
func (w *world) begin(ctx context.Context) (err error) {
	if w.resources, err = startTracker(ctx, w.server); err != nil {
		return err
	}
	if err = w.startManager(); err != nil {
		return err
	}
	return w.connect(ctx)
}

// renewAPIServer starts another API server in the place of the present one, with nothing in it.
func (w *world) renewAPIServer() (err error) {
	w.server.stop()
	w.server, err = startAPIServer(w.folder, w.given.crds)
	return err
}

// close ends all that was started. What cannot be removed is no reason to lose results.
func (w *world) close() {
	for _, m := range []*manager{w.manager, w.leader} {
		if err := m.stop(); err != nil {
			progress("%v", err)
		}
	}
	if w.resources != nil {
		w.resources.cancel()
	}
	if w.server != nil {
		w.server.stop()
	}
	if w.broker != nil {
		w.broker.remove()
	}
	_ = os.RemoveAll(w.folder)
}

func (w *world) startManager(more ...string) (err error) {
	if w.profiles == "" {
		if w.profiles, err = freeAddress(); err != nil {
			return err
		}
	}
	w.manager, err = startManager(w.given.manager, w.folder, w.server.kubeConfig, w.profiles, more...)
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

// connect makes the BrokerConnection, to the vhost in which the broker announces what happens.
func (w *world) connect(ctx context.Context) error {
	for _, object := range []client.Object{
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "rabbitmq"},
			Data: map[string][]byte{
				"username": []byte(w.broker.username), "password": []byte(w.broker.password),
				"amqpURI": []byte(w.broker.amqp), "managementURI": []byte(w.broker.management),
			},
		},
		&v1alpha1.BrokerConnection{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: connectionName},
			Spec: v1alpha1.BrokerConnectionSpec{
				VHost: "/", SecretRef: &v1alpha1.SecretReference{Name: "rabbitmq"},
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

// timeLimit is more than any phase takes.
const timeLimit = time.Hour

// until waits for a number of things.
func (w *world) until(ctx context.Context, what string, wanted int, count func() int) error {
	found := 0
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, timeLimit, true, func(context.Context) (bool, error) {
		if !w.manager.runs() {
			return false, errors.New("the manager ended by itself")
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

// parallel is how many requests the benchmark makes at a time.
const parallel = 16

// forEach does something for each number below count, several at a time, and returns the first error.
func forEach(count int, do func(number int) error) error {
	numbers, failed := make(chan int), make(chan error, parallel)
	var all sync.WaitGroup
	for range parallel {
		all.Go(func() {
			var first error
			for number := range numbers {
				if first == nil {
					first = do(number)
				}
			}
			failed <- first
		})
	}
	for number := range count {
		numbers <- number
	}
	close(numbers)
	all.Wait()
	close(failed)
	for err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}
