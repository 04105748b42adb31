package faults

import (
	"os"
	"slices"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
)

// deletedTogether is the number of ConsumerQueues to delete with their BrokerConnection, enough for fences to exist for a while.
// WARREN_DELETED_TOGETHER=200 sets a higher number.
func deletedTogether() int {
	if number, err := strconv.Atoi(os.Getenv("WARREN_DELETED_TOGETHER")); err == nil {
		return number
	}
	return 15
}

var _ = Describe("A manager that is killed while fences exist, when ConsumerQueues are deleted with their BrokerConnection", Long, func() {
	It("deletes everything after its restart", func() {
		w := newWorld(shared)
		w.killAtFence(false)
		startManager(w)
		w.expectAllGone()
	})

	It("waits for a Secret that is recreated within a minute", Extended, func() {
		w := newWorld(shared)
		w.killAtFence(true)
		startManager(w)
		left := len(w.All())
		Consistently(func() int { return len(w.All()) }).WithTimeout(10 * time.Second).WithPolling(time.Second).Should(Equal(left))
		w.Secret(w.Broker.Username, w.Broker.Password)
		w.expectAllGone()
	})

	It("says how to remove fences if the Secret is not recreated, and the next connection removes them", Extended, func() {
		w := newWorld(shared)
		w.killAtFence(true)
		startManager(w)
		w.eventuallyEmpty(2 * time.Minute)
		Expect(w.VHost.Policies()).NotTo(BeEmpty())
		Eventually(w.retainedOfConnection).Should(ConsistOf(SatisfyAll(
			HaveField("Type", corev1.EventTypeWarning),
			HaveField("Note", SatisfyAll(ContainSubstring("warren-fence-* and warren-recreate-*"), ContainSubstring("rabbitmqctl clear_policy -p"))))))

		w.Secret(w.Broker.Username, w.Broker.Password)
		w.Connect(v1alpha1.BrokerConnectionSpec{})
		Eventually(w.VHost.Policies).WithTimeout(deadline.For(90 * time.Second)).WithPolling(time.Second).Should(BeEmpty())
	})
})

// killAtFence creates ConsumerQueues, deletes them with their BrokerConnection and optionally the Secret, and kills the
// manager when fences exist.
func (w *world) killAtFence(secret bool) {
	GinkgoHelper()
	running := startManager(w)
	w.Queues("orders", deletedTogether(), patient)
	w.AllReady(deletedTogether())
	if secret {
		Expect(kube.Delete(ctx(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "rabbitmq", Namespace: w.Namespace}})).To(Succeed())
	}
	Expect(kube.Delete(ctx(), w.Connection())).To(Succeed())
	Expect(kube.DeleteAllOf(ctx(), &v1alpha1.ConsumerQueue{}, client.InNamespace(w.Namespace))).To(Succeed())
	w.pauseAtFence(running)
	running.Kill()
}

// pauseAtFence pauses a manager when fences exist.
func (w *world) pauseAtFence(running *Manager) {
	GinkgoHelper()
	Eventually(func() bool {
		if len(w.VHost.Policies()) == 0 {
			return false
		}
		running.Pause()
		if len(w.VHost.Policies()) > 0 {
			return true
		}
		running.Resume() // the last fence was removed before
		return false
	}).WithTimeout(deadline.For(time.Minute)).WithPolling(10 * time.Millisecond).Should(BeTrue())
}

// eventuallyNone waits until the namespace has no ConsumerQueue.
func (w *world) eventuallyNone(limit time.Duration) {
	GinkgoHelper()
	Eventually(func() int { return len(w.All()) }).WithTimeout(deadline.For(limit)).WithPolling(time.Second).Should(BeZero())
}

// eventuallyEmpty waits until the namespace has no ConsumerQueue and no BrokerConnection.
func (w *world) eventuallyEmpty(limit time.Duration) {
	GinkgoHelper()
	w.eventuallyNone(limit)
	Eventually(func() error {
		return kube.Get(ctx(), client.ObjectKey{Namespace: w.Namespace, Name: "default"}, &v1alpha1.BrokerConnection{})
	}).WithTimeout(deadline.For(limit)).WithPolling(time.Second).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
}

func (w *world) expectAllGone() {
	GinkgoHelper()
	w.eventuallyEmpty(4*time.Minute + time.Duration(deletedTogether())*time.Second)
	Eventually(w.VHost.Policies).Should(BeEmpty(), "no fence is left")
	Expect(w.VHost.Definitions().Queues).To(BeEmpty())
	Consistently(w.retainedOfConnection).WithTimeout(time.Second).Should(BeEmpty())
}

func (w *world) retainedOfConnection() []eventsv1.Event {
	GinkgoHelper()
	return slices.DeleteFunc(w.EventsSoFar(), func(event eventsv1.Event) bool {
		return event.Reason != "Retained" || event.Regarding.Kind != "BrokerConnection"
	})
}
