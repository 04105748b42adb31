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

// work is something that the manager is there for: it is set off, and then must come about.
type work struct {
	name string
	// start may be nil.
	start func(s *shift)
	done  func(s *shift) error
}

// works are all that a manager does with the API server, in an order in which each can be done.
var works = []work{
	{"answers its probes, which ask no broker", nil, (*shift).probed},
	{"becomes leader, and says so in an Event", nil, (*shift).isLeader},
	{"connects by a Secret", (*shift).applyConnection, func(s *shift) error { return s.connected("default") }},
	{"makes a ConsumerQueue Ready", (*shift).applyQueue, (*shift).queueReady},
	{"puts its finalizer on it", nil, (*shift).hasFinalizer},
	{"records an Event about it", nil, func(s *shift) error { return s.recorded("Declared") }},
	{"connects by a RabbitmqCluster", (*shift).applyCluster, func(s *shift) error { return s.connected("by-cluster") }},
	{"takes over another Secret", (*shift).changeSecret, (*shift).secretTakenOver},
	{"serves metrics to those who may read them", nil, (*shift).servesMetrics},
	{"serves the dead-letter API, and labels its pod", (*shift).addLooker, (*shift).servesDeadLetters},
	{"mends drift", (*shift).drift, func(s *shift) error { return s.recorded("DriftCorrected") }},
	{"writes a status although the resource has changed meanwhile", (*shift).requestAmidChanges, (*shift).requestHandled},
	{"writes a contract", func(s *shift) { s.applyContract(5) }, func(s *shift) error { return s.contractWritten(5) }},
	{"writes another contract", func(s *shift) { s.applyContract(7) }, func(s *shift) error { return s.contractWritten(7) }},
	{"carries out a Redrive, and deletes it in time", (*shift).createRedrive, (*shift).redriveGone},
	{"carries out a Purge, and deletes it in time", (*shift).createPurge, (*shift).purgeGone},
	{"stays leader", nil, (*shift).renewed},
	{"lets a ConsumerQueue go", (*shift).deleteQueue, (*shift).queueGone},
}

// probed asks /healthz and /readyz, at a time when there is no broker yet.
func (s *shift) probed() error {
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

// addLooker makes a ServiceAccount that may see dead-letter queues, where the API is served.
func (s *shift) addLooker() {
	if s.deadLetters == "" {
		return
	}
	s.create(&corev1.ServiceAccount{}, "looker")
	s.cluster.Kubectl("create", "rolebinding", "--namespace="+s.Namespace, "looker",
		"--clusterrole=warren-deadletterqueue-viewer-role", "--serviceaccount="+s.Namespace+":looker")
}

// servesDeadLetters asks for the dead-letter queues of the namespace.
func (s *shift) servesDeadLetters() error {
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
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // a certificate that the manager made
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

func (s *shift) isLeader() error {
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

func (s *shift) lease() (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	return lease, s.cluster.Get(ctx(), client.ObjectKey{Namespace: system, Name: "warren.messaging.warren.dev"}, lease)
}

func (s *shift) renewed() error {
	lease, err := s.lease()
	if err == nil && !lease.Spec.RenewTime.After(lease.Spec.AcquireTime.Time) {
		err = errors.New("the lease has not been renewed")
	}
	return err
}

func (s *shift) applyConnection() {
	s.Secret(s.user.Username, s.user.Password)
	s.Connect(v1alpha1.BrokerConnectionSpec{})
}

func (s *shift) connected(name string) error {
	bc := &v1alpha1.BrokerConnection{}
	if err := s.cluster.Get(ctx(), s.key(name), bc); err != nil {
		return err
	}
	return isReady(bc.Status.Conditions, bc.Generation)
}

func (s *shift) applyQueue() { s.Queue("orders", `{deletionPolicy: Delete}`) }

func (s *shift) queueReady() error {
	cq, err := s.queue()
	if err != nil {
		return err
	}
	return isReady(cq.Status.Conditions, cq.Generation)
}

func (s *shift) queue() (*v1alpha1.ConsumerQueue, error) {
	cq := &v1alpha1.ConsumerQueue{}
	return cq, s.cluster.Get(ctx(), s.key("orders"), cq)
}

func (s *shift) hasFinalizer() error {
	cq, err := s.queue()
	if err == nil && !slices.Contains(cq.Finalizers, "messaging.warren.dev/topology") {
		err = fmt.Errorf("finalizers are %v", cq.Finalizers)
	}
	return err
}

// recorded looks for an Event about the queue.
func (s *shift) recorded(reason string) error {
	for _, event := range s.EventsSoFar() {
		if event.Regarding.Name == "orders" && event.Reason == reason {
			return nil
		}
	}
	return fmt.Errorf("no Event %s", reason)
}

func (s *shift) applyCluster() {
	s.create(rabbitmqCluster(), "rabbit")
	cluster := rabbitmqCluster()
	Expect(s.cluster.Get(ctx(), s.key("rabbit"), cluster)).To(Succeed())
	cluster.Object["status"] = map[string]any{"defaultUser": map[string]any{"secretReference": map[string]any{"name": "rabbitmq"}}}
	Expect(s.cluster.Status().Update(ctx(), cluster)).To(Succeed())
	s.create(&v1alpha1.BrokerConnection{Spec: v1alpha1.BrokerConnectionSpec{
		ClusterRef: &v1alpha1.LocalObjectReference{Name: "rabbit"}, VHost: s.other.Name, ResyncInterval: "1s",
	}}, "by-cluster")
}

// changeSecret spoils the password, and puts it right again when that was noticed.
func (s *shift) changeSecret() {
	s.changeKey("password", func(string) string { return "this is not it" })
	s.until(func() error {
		if s.connected("default") == nil {
			return errors.New("still Ready with a wrong password")
		}
		return nil
	})
	s.changeKey("password", func(string) string { return s.user.Password })
}

func (s *shift) changeKey(key string, change func(string) string) {
	secret := &corev1.Secret{}
	Expect(s.cluster.Get(ctx(), s.key("rabbitmq"), secret)).To(Succeed())
	secret.Data[key] = []byte(change(string(secret.Data[key])))
	Expect(s.cluster.Update(ctx(), secret)).To(Succeed())
}

func (s *shift) secretTakenOver() error { return errors.Join(s.connected("default"), s.queueReady()) }

// servesMetrics asks as somebody with the role warren-metrics-reader, as somebody without, and as nobody: others get 401 or
// 403. Metrics are off where the installation is for single namespaces.
func (s *shift) servesMetrics() error {
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

// applyContract asks for a contract, where the manager may write contracts.
func (s *shift) applyContract(maxAttempts int) {
	if s.cluster.writesContracts {
		s.Queue("orders", fmt.Sprintf(`{deletionPolicy: Delete, contract: {configMap: orders-contract}, retry: {maxAttempts: %d}}`, maxAttempts))
	}
}

func (s *shift) contractWritten(maxAttempts int) error {
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

func (s *shift) drift() { s.VHost.DeleteQueue("orders.dlq") }

// requestAmidChanges asks for another look, and has the resource change just before each status is written, as it may
// by chance at any time.
func (s *shift) requestAmidChanges() {
	count := 0
	s.gate.Before(func(request *http.Request) {
		if request.Method != http.MethodPut || !strings.HasSuffix(request.URL.Path, "/consumerqueues/orders/status") {
			return
		}
		if count++; count == 1 {
			_ = s.annotate("somebody.else/was-here", "yes") // without it, there is no conflict, and the test notices
		}
	})
	Expect(s.annotate(v1alpha1.RequestedAtAnnotation, "now")).To(Succeed())
}

func (s *shift) annotate(key, value string) error {
	cq := &v1alpha1.ConsumerQueue{}
	cq.Namespace, cq.Name = s.Namespace, "orders"
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	return s.cluster.Patch(ctx(), cq, client.RawPatch(types.MergePatchType, []byte(patch)))
}

func (s *shift) requestHandled() error {
	cq, err := s.queue()
	if err == nil && (cq.Status.LastHandledReconcileAt != "now" || cq.Annotations["somebody.else/was-here"] == "") {
		err = fmt.Errorf("handled %q, annotations %v", cq.Status.LastHandledReconcileAt, cq.Annotations)
	}
	return err
}

func (s *shift) createRedrive() {
	s.VHost.Publish("", "orders.dlq", "a message")
	s.Redrive("again", `{consumerQueueRef: {name: orders}, ttlSecondsAfterFinished: 0}`)
}

func (s *shift) redriveGone() error {
	redrive := &v1alpha1.Redrive{}
	if err := s.cluster.Get(ctx(), s.key("again"), redrive); !apierrors.IsNotFound(err) {
		return fmt.Errorf("the Redrive is still there: %w, %+v", err, redrive.Status.Conditions)
	}
	if ready := s.VHost.Ready("orders"); ready != 1 {
		return fmt.Errorf("the main queue has %d messages", ready)
	}
	return nil
}

func (s *shift) createPurge() {
	s.VHost.Publish("", "orders.dlq", "a message")
	s.Purge("gone", `{consumerQueueRef: {name: orders}, expectedAtMost: 1, ttlSecondsAfterFinished: 0}`)
}

func (s *shift) purgeGone() error {
	purge := &v1alpha1.Purge{}
	if err := s.cluster.Get(ctx(), s.key("gone"), purge); !apierrors.IsNotFound(err) {
		return fmt.Errorf("the Purge is still there: %w, %+v", err, purge.Status.Conditions)
	}
	if ready := s.VHost.Ready("orders.dlq"); ready != 0 {
		return fmt.Errorf("the dead-letter queue has %d messages", ready)
	}
	return nil
}

func (s *shift) deleteQueue() { s.Delete("orders") }

func (s *shift) queueGone() error {
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

// until waits for work to be done, or to be refused: then there is nothing more to wait for.
func (s *shift) until(done func() error) {
	GinkgoHelper()
	Eventually(func() error {
		if len(s.refused()) > 0 {
			return nil
		}
		return done()
	}).Should(Succeed())
}
