package crashpoints

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/netfault"
	"github.com/warren-mq/warren/test/testenv/controlplane"
	"github.com/warren-mq/warren/test/testenv/process"
	"github.com/warren-mq/warren/test/traffic"
)

const (
	// interval is the resyncInterval of the BrokerConnection.
	interval = time.Second
	// quietIntervals is for how many intervals nothing may be written at the end.
	quietIntervals = 3
)

// parts are what all worlds share.
type parts struct {
	server    *controlplane.Server
	kube      client.Client
	transport http.RoundTripper
	manager   string // path of the binary
}

func newParts(t *testing.T) *parts {
	t.Helper()
	p := &parts{manager: os.Getenv("WARREN_TEST_MANAGER")}
	if p.manager == "" {
		t.Fatal("WARREN_TEST_MANAGER names no manager: run make crashpoints")
	}
	var err error
	crds := filepath.Join("..", "..", "config", "crd", "bases")
	if p.server, err = controlplane.Shared(t.TempDir(), crds); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.server.Stop() })
	if p.kube, err = p.server.Client(); err != nil {
		t.Fatal(err)
	}
	if p.transport, err = rest.TransportFor(p.server.Config); err != nil {
		t.Fatal(err)
	}
	return p
}

// world is a namespace and a vhost with a manager of their own, which reaches broker and API server through a gate.
type world struct {
	*parts

	t          *testing.T
	vhost      *brokers.VHost
	namespace  string
	gate       *gate
	kubeConfig string
	log        *os.File
	process    *process.Process
	publishers []*traffic.Publisher
	// throughExchange are the publishers that use no queue's name.
	throughExchange []*traffic.Publisher
	// consumer is nil while it pauses, and in flows without one.
	consumer *traffic.Consumer
	// consumed are the IDs of the messages that consumers acked before they paused.
	consumed []string
}

// newWorld creates a namespace with a BrokerConnection, and starts its manager.
func newWorld(t *testing.T, p *parts, broker brokers.Broker) *world {
	t.Helper()
	vhost := broker.NewVHost(t)
	w := &world{parts: p, t: t, vhost: vhost, gate: newGate(vhost.Name)}
	w.gate.kill, w.gate.isGone = w.killManager, w.isGone
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "crash-"}}
	w.create(namespace)
	w.namespace = namespace.Name
	amqpProxy := netfault.NewFrameProxy(t, broker.AMQPURI, w.gate.decide)
	management := netfault.NewHTTPProxy(t, broker.ManagementURI, netfault.HTTPOptions{})
	w.gate.through(management, managementRequest)
	w.connectKubernetes()
	w.create(&corev1.Secret{ObjectMeta: w.meta("rabbitmq"), Data: map[string][]byte{
		"username": []byte(broker.Username), "password": []byte(broker.Password),
		"amqpURI": []byte(amqpProxy.URI), "managementURI": []byte(management.URI),
	}})
	w.create(&v1alpha1.BrokerConnection{ObjectMeta: w.meta("default"), Spec: v1alpha1.BrokerConnectionSpec{
		VHost: w.vhost.Name, SecretRef: &v1alpha1.LocalObjectReference{Name: "rabbitmq"}, ResyncInterval: v1alpha1.Duration(interval.String()),
	}})
	w.openLog()
	w.startManager()
	t.Cleanup(w.stopManager)
	return w
}

// connectKubernetes writes a kubeconfig that leads to the API server through the gate.
func (w *world) connectKubernetes() {
	w.t.Helper()
	proxy := netfault.NewHTTPProxy(w.t, w.server.Config.Host, netfault.HTTPOptions{
		TLS: &tls.Config{MinVersion: tls.VersionTLS12}, Transport: w.transport,
	})
	w.gate.through(proxy, kubernetesRequest)
	config := clientcmdapi.NewConfig()
	config.Clusters["gate"] = &clientcmdapi.Cluster{Server: proxy.URI, CertificateAuthorityData: proxy.CA}
	config.Contexts["gate"] = &clientcmdapi.Context{Cluster: "gate"}
	config.CurrentContext = "gate"
	w.kubeConfig = filepath.Join(w.t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, w.kubeConfig); err != nil {
		w.t.Fatal(err)
	}
}

// openLog opens the log of all managers of the world, which the test prints if it fails.
func (w *world) openLog() {
	w.t.Helper()
	var err error
	if w.log, err = os.Create(filepath.Join(w.t.TempDir(), "manager.log")); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = w.log.Close()
		if w.t.Failed() {
			text, _ := os.ReadFile(w.log.Name())
			w.t.Logf("log of the managers:\n%s", text)
		}
	})
}

func (w *world) startManager() {
	w.t.Helper()
	command := process.Manager(w.manager, w.kubeConfig,
		"--watch-namespaces="+w.namespace, "--metrics-bind-address=0", "--message-counts-interval=0")
	command.Stdout, command.Stderr = w.log, w.log
	var err error
	if w.process, err = process.Start(command); err != nil {
		w.t.Fatal(err)
	}
}

// killManager kills the manager as a crash does. It is called by a proxy.
func (w *world) killManager() {
	_ = w.process.Command.Process.Kill() // it may have ended
	<-w.process.Ended
}

// stopManager stops the manager, unless the gate has killed it.
func (w *world) stopManager() {
	if err := w.process.Stop(); err != nil && !w.gate.isClosed() {
		w.t.Errorf("stop the manager: %v", err)
	}
}

// restartIfCrashed starts a manager again that the gate has killed.
func (w *world) restartIfCrashed() {
	w.t.Helper()
	ended := w.process.HasEnded()
	switch isClosed := w.gate.isClosed(); {
	case isClosed && w.gate.hasCrashed():
		w.gate.reopen()
		w.startManager()
	case ended && !isClosed:
		w.t.Fatalf("the manager ended by itself: %v", w.process.Err())
	}
}

// until waits for a condition. Meanwhile it starts a killed manager again.
func (w *world) until(what string, limit time.Duration, condition func() (done bool, detail any)) {
	w.t.Helper()
	var detail any
	err := wait.PollUntilContextTimeout(w.t.Context(), polling, limit, true, func(context.Context) (done bool, err error) {
		w.restartIfCrashed()
		done, detail = condition()
		return done, nil
	})
	if err != nil {
		w.t.Fatalf("not within %v: %s; last seen: %s", limit, what, asYAML(detail))
	}
}

func asYAML(value any) string {
	text, _ := yaml.Marshal(value)
	return string(text)
}

// untilQuiet waits until the manager has written nothing for some intervals.
func (w *world) untilQuiet(intervals time.Duration) {
	w.t.Helper()
	count, since := -1, time.Now()
	w.until(fmt.Sprintf("nothing is written for %d intervals", intervals), deadline.For(20*time.Second), func() (bool, any) {
		effects := w.gate.recorded()
		if len(effects) != count {
			count, since = len(effects), time.Now()
		}
		return time.Since(since) >= intervals*interval, effects[max(0, len(effects)-10):]
	})
}

func (w *world) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.namespace, Name: name}
}

func (w *world) create(object client.Object) {
	w.t.Helper()
	if err := w.kube.Create(w.t.Context(), object); err != nil {
		w.t.Fatal(err)
	}
}

// queue creates or edits the ConsumerQueue orders.
func (w *world) queue(spec string) {
	w.t.Helper()
	wanted := &v1alpha1.ConsumerQueue{ObjectMeta: w.meta("orders")}
	if err := yaml.UnmarshalStrict([]byte(spec), &wanted.Spec); err != nil {
		w.t.Fatal(err)
	}
	now, exists := w.orders()
	if !exists {
		w.create(wanted)
		return
	}
	before := now.DeepCopy()
	now.Spec = wanted.Spec
	if err := w.kube.Patch(w.t.Context(), now, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
}

// orders reads the ConsumerQueue.
func (w *world) orders() (cq *v1alpha1.ConsumerQueue, exists bool) {
	w.t.Helper()
	cq = &v1alpha1.ConsumerQueue{}
	return cq, w.get("orders", cq)
}

func (w *world) get(name string, object client.Object) (exists bool) {
	w.t.Helper()
	err := w.kube.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, object)
	if client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	return !apierrors.IsNotFound(err)
}

// untilReady waits until the ConsumerQueue is Ready.
func (w *world) untilReady() {
	w.t.Helper()
	w.until("the ConsumerQueue is Ready", deadline.For(30*time.Second), func() (bool, any) {
		cq, _ := w.orders()
		return isReady(cq), cq.Status
	})
}

// publish starts a publisher that repeats what the broker refuses.
func (w *world) publish(target traffic.Target) {
	w.t.Helper()
	publisher := traffic.Publish(w.t, w.vhost, traffic.Publishing{
		Targets: []traffic.Target{target}, Every: 40 * time.Millisecond, Retry: true,
	})
	w.publishers = append(w.publishers, publisher)
	if target.Exchange != "" {
		w.throughExchange = append(w.throughExchange, publisher)
	}
}

// checkRefusals fails the test if the broker has returned or refused a message of a publisher through an exchange.
func (w *world) checkRefusals() {
	w.t.Helper()
	for _, publisher := range w.throughExchange {
		if counts := publisher.Counts(); counts.Returned > 0 || counts.Refusals > 0 {
			w.t.Errorf("of a publisher through an exchange, %d messages were returned, and %d refused", counts.Returned, counts.Refusals)
		}
	}
}

// confirmed stops the publishers, and returns the IDs that the broker has confirmed.
func (w *world) confirmed() []string {
	var ids []string
	for _, publisher := range w.publishers {
		publisher.Stop()
		ids = append(ids, publisher.Confirmed()...)
	}
	return ids
}

// stopConsumer stops the consumer, if there is one. It fails the test if the consumer received a sentinel.
func (w *world) stopConsumer() {
	w.t.Helper()
	if w.consumer == nil {
		return
	}
	w.consumer.Stop()
	w.consumed = append(w.consumed, w.consumer.Consumed()...)
	if count := w.consumer.Sentinels(); count > 0 {
		w.t.Errorf("the consumer received %d sentinels", count)
	}
	w.consumer = nil
}

// isGone reports whether a queue is absent.
func (w *world) isGone(queue string) bool {
	connection, err := w.vhost.Connect("crashpoints")
	if err != nil {
		return false
	}
	defer func() { _ = connection.Close() }()
	channel, err := connection.Channel()
	if err != nil {
		return false
	}
	_, err = channel.QueueDeclarePassive(queue, true, false, false, false, nil)
	return brokers.IsNotFound(err)
}

// condition is a condition without times and random parts.
type condition struct{ Type, Status, Reason, Message string }

// conditionsOf returns the conditions of a resource, by type.
func (w *world) conditionsOf(all []metav1.Condition) []condition {
	var found []condition
	for _, c := range all {
		message := strings.ReplaceAll(withoutRandomParts(c.Message), w.vhost.Name, "VHOST")
		found = append(found, condition{c.Type, string(c.Status), c.Reason, message})
	}
	slices.SortFunc(found, func(a, b condition) int { return cmp.Compare(a.Type, b.Type) })
	return found
}
