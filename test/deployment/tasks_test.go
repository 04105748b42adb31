package deployment

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/deadletterapi"
)

// task is something that the manager must be able to do. start triggers it, and done reports whether it happened.
type task struct {
	name string
	// start may be nil.
	start func(s *fixture)
	done  func(s *fixture) error
}

// tasks are all tasks for which the manager uses the API server, in an order in which each is possible.
var tasks = []task{
	{"answers its probes without a broker", nil, (*fixture).probesSucceed},
	{"becomes leader and records an Event", nil, (*fixture).isLeader},
	{"connects with a Secret", (*fixture).applyConnection, func(s *fixture) error { return s.connected("default") }},
	{"makes a ConsumerQueue Ready", (*fixture).applyQueue, (*fixture).queueReady},
	{"adds its finalizer", nil, (*fixture).hasFinalizer},
	{"records an Event about the ConsumerQueue", nil, func(s *fixture) error { return s.eventRecorded("Declared") }},
	{"connects with a RabbitmqCluster", (*fixture).applyCluster, func(s *fixture) error { return s.connected("by-cluster") }},
	{"uses a changed Secret", (*fixture).changeSecret, (*fixture).secretTakenOver},
	{"serves metrics to authorized clients", nil, (*fixture).servesMetrics},
	{"serves the dead-letter API and labels its pod", (*fixture).addReader, (*fixture).servesDeadLetters},
	{"corrects drift", (*fixture).drift, func(s *fixture) error { return s.eventRecorded("DriftCorrected") }},
	{"writes a status although the resource has changed", (*fixture).requestDuringChanges, (*fixture).requestHandled},
	{"writes a contract", func(s *fixture) { s.applyContract(5) }, func(s *fixture) error { return s.contractWritten(5) }},
	{"writes another contract", func(s *fixture) { s.applyContract(7) }, func(s *fixture) error { return s.contractWritten(7) }},
	{"completes a Redrive and deletes it after its TTL", (*fixture).createRedrive, (*fixture).redriveGone},
	{"completes a Purge and deletes it after its TTL", (*fixture).createPurge, (*fixture).purgeGone},
	{"stays leader", nil, (*fixture).renewed},
	{"deletes a ConsumerQueue", (*fixture).deleteQueue, (*fixture).queueGone},
}

// probesSucceed requests /healthz and /readyz before there is a broker.
func (s *fixture) probesSucceed() error {
	var problems []error
	for _, path := range []string{"/healthz", "/readyz"} {
		response, err := http.Get("http://" + s.probes + path)
		if err == nil {
			var content []byte
			content, err = io.ReadAll(response.Body)
			err = errors.Join(err, response.Body.Close())
			if err == nil && (response.StatusCode != http.StatusOK || string(content) != "ok") {
				err = fmt.Errorf("%s: %d, %q", path, response.StatusCode, content)
			}
		}
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// addReader creates a ServiceAccount that may read dead letters, if the API is served.
func (s *fixture) addReader() {
	if s.deadLetters == "" {
		return
	}
	s.create(&corev1.ServiceAccount{}, "looker")
	s.cluster.Kubectl("create", "rolebinding", "--namespace="+s.Namespace, "looker",
		"--clusterrole=warren-deadletterqueue-viewer-role", "--serviceaccount="+s.Namespace+":looker")
}

// servesDeadLetters lists the dead-letter queues of the namespace.
func (s *fixture) servesDeadLetters() error {
	if s.deadLetters == "" {
		return nil
	}
	pod := &corev1.Pod{}
	if err := s.cluster.Get(ctx(), client.ObjectKey{Namespace: system, Name: s.pod}, pod); err != nil {
		return err
	}
	if pod.Labels[deadletterapi.ActiveLabel] != "true" {
		return fmt.Errorf("the labels of the pod are %v", pod.Labels)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // the manager's certificate is self-signed
	defer transport.CloseIdleConnections()
	url := "https://" + s.deadLetters + "/apis/deadletters.messaging.warren.dev/v1alpha1/namespaces/" + s.Namespace + "/deadletterqueues"
	request, err := http.NewRequestWithContext(ctx(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("X-Warren-Token", s.Token("looker", "warren"))
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	content, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK || !strings.Contains(string(content), `"queue":"orders.dlq"`) {
		return fmt.Errorf("%d, %s", response.StatusCode, content)
	}
	return nil
}

func (s *fixture) isLeader() error {
	lease, err := s.lease()
	if err != nil {
		return err
	}
	list := &corev1.EventList{}
	if err := s.cluster.List(ctx(), list, client.InNamespace(system)); err != nil {
		return err
	}
	for _, event := range list.Items {
		if event.InvolvedObject.Name == lease.Name && strings.HasSuffix(event.Message, "became leader") {
			return nil
		}
	}
	return errors.New("no Event of a leader")
}

func (s *fixture) lease() (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	return lease, s.cluster.Get(ctx(), client.ObjectKey{Namespace: system, Name: "warren.messaging.warren.dev"}, lease)
}

func (s *fixture) renewed() error {
	lease, err := s.lease()
	if err == nil && !lease.Spec.RenewTime.After(lease.Spec.AcquireTime.Time) {
		err = errors.New("the lease has not been renewed")
	}
	return err
}

func (s *fixture) applyConnection() {
	s.Secret(s.user.Username, s.user.Password)
	s.Connect(v1alpha1.BrokerConnectionSpec{})
}

func (s *fixture) connected(name string) error {
	bc := &v1alpha1.BrokerConnection{}
	if err := s.cluster.Get(ctx(), s.key(name), bc); err != nil {
		return err
	}
	return isReady(bc.Status.Conditions, bc.Generation)
}

func (s *fixture) applyQueue() { s.Queue("orders", `{deletionPolicy: Delete}`) }

func (s *fixture) queueReady() error {
	cq, err := s.queue()
	if err != nil {
		return err
	}
	return isReady(cq.Status.Conditions, cq.Generation)
}

func (s *fixture) queue() (*v1alpha1.ConsumerQueue, error) {
	cq := &v1alpha1.ConsumerQueue{}
	return cq, s.cluster.Get(ctx(), s.key("orders"), cq)
}

func (s *fixture) hasFinalizer() error {
	cq, err := s.queue()
	if err == nil && !slices.Contains(cq.Finalizers, "messaging.warren.dev/topology") {
		err = fmt.Errorf("finalizers are %v", cq.Finalizers)
	}
	return err
}

// eventRecorded checks that there is an Event with this reason about the queue.
func (s *fixture) eventRecorded(reason string) error {
	for _, event := range s.EventsSoFar() {
		if event.Regarding.Name == "orders" && event.Reason == reason {
			return nil
		}
	}
	return fmt.Errorf("no Event %s", reason)
}

func (s *fixture) applyCluster() {
	s.create(rabbitmqCluster(), "rabbit")
	cluster := rabbitmqCluster()
	Expect(s.cluster.Get(ctx(), s.key("rabbit"), cluster)).To(Succeed())
	cluster.Object["status"] = map[string]any{"defaultUser": map[string]any{"secretReference": map[string]any{"name": "rabbitmq"}}}
	Expect(s.cluster.Status().Update(ctx(), cluster)).To(Succeed())
	s.create(&v1alpha1.BrokerConnection{Spec: v1alpha1.BrokerConnectionSpec{
		ClusterRef: &v1alpha1.LocalObjectReference{Name: "rabbit"}, VHost: s.other.Name, ResyncInterval: "1s",
	}}, "by-cluster")
}

// changeSecret sets a wrong password, and the right one after the manager has noticed.
func (s *fixture) changeSecret() {
	s.changeKey("password", func(string) string { return "this is not it" })
	s.until(func() error {
		if s.connected("default") == nil {
			return errors.New("still Ready with a wrong password")
		}
		return nil
	})
	s.changeKey("password", func(string) string { return s.user.Password })
}

func (s *fixture) changeKey(key string, change func(string) string) {
	secret := &corev1.Secret{}
	Expect(s.cluster.Get(ctx(), s.key("rabbitmq"), secret)).To(Succeed())
	secret.Data[key] = []byte(change(string(secret.Data[key])))
	Expect(s.cluster.Update(ctx(), secret)).To(Succeed())
}

func (s *fixture) secretTakenOver() error { return errors.Join(s.connected("default"), s.queueReady()) }

// servesMetrics requests metrics with the role warren-metrics-reader, without it, and without a token. The latter get 403 and
// 401. In an installation for single namespaces, metrics are off.
func (s *fixture) servesMetrics() error {
	if s.metrics == "" {
		return nil
	}
	var problems []error
	for token, want := range map[string]int{
		s.cluster.scraper: http.StatusOK, s.cluster.stranger: http.StatusForbidden, "": http.StatusUnauthorized,
		"made-up": http.StatusUnauthorized,
	} {
		got, err := s.scrape(token)
		if err == nil && got != want {
			err = fmt.Errorf("metrics: %d, want %d", got, want)
		}
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// applyContract requests a contract, if the manager may write contracts.
func (s *fixture) applyContract(maxAttempts int) {
	if s.cluster.writesContracts {
		s.Queue("orders", fmt.Sprintf(`{deletionPolicy: Delete, contract: {configMap: orders-contract}, retry: {maxAttempts: %d}}`, maxAttempts))
	}
}

func (s *fixture) contractWritten(maxAttempts int) error {
	if !s.cluster.writesContracts {
		return nil
	}
	found := &corev1.ConfigMap{}
	if err := s.cluster.Get(ctx(), s.key("orders-contract"), found); err != nil {
		return err
	}
	if want := fmt.Sprintf(`"maxAttempts": %d`, maxAttempts); !strings.Contains(found.Data["contract.json"], want) {
		return fmt.Errorf("the contract has not %s: %s", want, found.Data["contract.json"])
	}
	return s.queueReady()
}

func (s *fixture) drift() { s.VHost.DeleteQueue("orders.dlq") }

// requestDuringChanges requests a refresh, and changes the resource just before each status write, as may happen by chance.
func (s *fixture) requestDuringChanges() {
	count := 0
	s.recorder.Before(func(request *http.Request) {
		if request.Method != http.MethodPut || !strings.HasSuffix(request.URL.Path, "/consumerqueues/orders/status") {
			return
		}
		if count++; count == 1 {
			_ = s.annotate("somebody.else/was-here", "yes") // if this fails, there is no conflict, and the test fails
		}
	})
	Expect(s.annotate(v1alpha1.RequestedAtAnnotation, "now")).To(Succeed())
}

func (s *fixture) annotate(key, value string) error {
	cq := &v1alpha1.ConsumerQueue{}
	cq.Namespace, cq.Name = s.Namespace, "orders"
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	return s.cluster.Patch(ctx(), cq, client.RawPatch(types.MergePatchType, []byte(patch)))
}

func (s *fixture) requestHandled() error {
	cq, err := s.queue()
	if err == nil && (cq.Status.LastHandledReconcileAt != "now" || cq.Annotations["somebody.else/was-here"] == "") {
		err = fmt.Errorf("handled %q, annotations %v", cq.Status.LastHandledReconcileAt, cq.Annotations)
	}
	return err
}

func (s *fixture) createRedrive() {
	s.VHost.Publish("", "orders.dlq", "a message")
	s.Redrive("again", `{consumerQueueRef: {name: orders}, ttlSecondsAfterFinished: 0}`)
}

func (s *fixture) redriveGone() error {
	redrive := &v1alpha1.Redrive{}
	if err := s.cluster.Get(ctx(), s.key("again"), redrive); !apierrors.IsNotFound(err) {
		return fmt.Errorf("the Redrive is still there: %w, %+v", err, redrive.Status.Conditions)
	}
	if ready := s.VHost.Ready("orders"); ready != 1 {
		return fmt.Errorf("the main queue has %d messages", ready)
	}
	return nil
}

func (s *fixture) createPurge() {
	s.VHost.Publish("", "orders.dlq", "a message")
	s.Purge("gone", `{consumerQueueRef: {name: orders}, expectedAtMost: 1, ttlSecondsAfterFinished: 0}`)
}

func (s *fixture) purgeGone() error {
	purge := &v1alpha1.Purge{}
	if err := s.cluster.Get(ctx(), s.key("gone"), purge); !apierrors.IsNotFound(err) {
		return fmt.Errorf("the Purge is still there: %w, %+v", err, purge.Status.Conditions)
	}
	if ready := s.VHost.Ready("orders.dlq"); ready != 0 {
		return fmt.Errorf("the dead-letter queue has %d messages", ready)
	}
	return nil
}

func (s *fixture) deleteQueue() { s.Delete("orders") }

func (s *fixture) queueGone() error {
	cq, err := s.queue()
	if err == nil {
		return fmt.Errorf("the ConsumerQueue is still there: %+v", cq.Status.Conditions)
	}
	if !apierrors.IsNotFound(err) {
		return err
	}
	if queues := s.VHost.Definitions().Queues; len(queues) > 0 {
		return fmt.Errorf("the broker still has %v", queues)
	}
	return nil
}

// until waits until a task is done or refused.
func (s *fixture) until(done func() error) {
	GinkgoHelper()
	Eventually(func() error {
		if len(s.refused()) > 0 {
			return nil
		}
		return done()
	}).Should(Succeed())
}
