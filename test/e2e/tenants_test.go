package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/hostile"
	"github.com/warren-mq/warren/test/netfault"
	. "github.com/warren-mq/warren/test/testenv"
)

// attacks are ways to claim a vhost of another tenant. The attacker may edit its own namespace and has its own servers,
// but has no access to the vhost.
var attacks = map[string]func(victim, attacker *world){
	"a management API that forges the cluster's name, at the AMQP address of the cluster": func(victim, attacker *world) {
		attacker.connectWithWrongPassword(victim, victim.Broker.AMQPURI)
		attacker.claimVictimsQueues()
	},
	"a management API that forges the cluster's name, at another spelling of that address": func(victim, attacker *world) {
		attacker.connectWithWrongPassword(victim, strings.Replace(victim.Broker.AMQPURI, "127.0.0.1", "localhost", 1))
		attacker.claimVictimsQueues()
	},
	"a management API and an AMQP server that forge the cluster's ID": func(victim, attacker *world) {
		api := hostile.NewManagement(GinkgoTB(), nil)
		api.ClusterName, api.ClusterID = victim.Broker.ClusterName(GinkgoTB()), victim.Broker.ClusterID(GinkgoTB())
		attacker.connectToServers(api)
		attacker.claimVictimsQueues()
		for _, name := range []string{"orders", "bills", "pay"} {
			attacker.Eventually(name, HaveField("Status.Location.ClusterID", vhost.HashedClusterID(api.ClusterID)))
		}
	},
	"forged intents": func(victim, attacker *world) {
		reading := atomic.Bool{} // while true, requests for definitions take longer than the attack
		api := hostile.NewManagement(GinkgoTB(), func(_ http.ResponseWriter, r *http.Request) bool {
			if !reading.Load() || !strings.HasPrefix(r.URL.Path, "/api/definitions") {
				return false
			}
			<-r.Context().Done()
			return true
		})
		attacker.connectToServers(api)
		attacker.Queue("other", `{}`)
		attacker.EventuallyConnection(Condition("Ready", metav1.ConditionTrue, "Connected"),
			HaveField("Finalizers", ContainElement(v1alpha1.ConnectionFinalizer)))
		reading.Store(true)
		attacker.claimVictimsQueues()
		cluster := vhost.Cluster{
			ID: vhost.HashedClusterID(victim.Broker.ClusterID(GinkgoTB())), Name: victim.Broker.ClusterName(GinkgoTB()),
			Endpoint: strings.TrimPrefix(victim.Broker.AMQPURI, "amqp://"),
		}
		for name, queues := range map[string]map[string]v1alpha1.Role{
			"orders": {"orders": v1alpha1.RoleMain, "orders.dlq": v1alpha1.RoleDeadLetter},
			"bills":  {"bills": v1alpha1.RoleMain, "bills.retry.1m": v1alpha1.RoleDelayTier},
			"pay":    {"pay": v1alpha1.RoleMain},
		} {
			attacker.forgeIntents(name, cluster, queues)
		}
	},
}

var _ = Describe("A tenant without access to a vhost", Long, func() {
	for name, attack := range attacks {
		It("gains no claim by "+name, ExtendedUnless(name == "forged intents"), func() {
			victim := newWorld(newest)
			victim.Queue("orders", `{}`)
			victim.Queue("bills", `{retry: {delayTiers: [{delay: 1m}]}}`)
			victim.Ready("orders")
			victim.Ready("bills")
			attack(victim, newWorldAt(victim.VHost))

			victim.Queue("pay", `{retry: {policy: None}}`)
			victim.Ready("pay")
			victim.Queue("bills", `{retry: {delayTiers: [{delay: 2m}]}}`)
			victim.Delete("orders")
			victim.gone("orders")
			Eventually(victim.queueNames).Should(ConsistOf("bills", "bills.dlq", "bills.retry.2m", "pay", "pay.dlq"))
			victim.Ready("bills")
			victim.ConsistentlyNoEvents("Conflict")
			victim.ConsistentlyNoEvents("Retained")
		})
	}
})

var _ = Describe("Tenants that use different addresses of one vhost", func() {
	It("see each other's conflicts, although neither may read the cluster's ID", func() {
		here := newTenant(newest.NewVHost(GinkgoTB()), newest.AMQPURI)
		there := newTenant(here.VHost, netfault.NewProxy(GinkgoTB(), newest.AMQPURI).URI)
		here.Queue("orders", `{queue: {name: work}}`)
		here.Ready("orders")
		there.Queue("invoices", `{queue: {name: work}}`)
		there.Eventually("invoices", Condition("Ready", metav1.ConditionFalse, "Conflict"),
			Message(ContainSubstring(`a ConsumerQueue in another namespace uses queue "work"`)))
	})
})

// newTenant returns a namespace whose RabbitMQ user has only the tag management.
func newTenant(vh *brokers.VHost, amqpURI string) *world {
	GinkgoHelper()
	w := newWorldAt(vh)
	user := w.Broker.NewUser(GinkgoTB(), "management")
	vh.Grant(user, ".*", ".*", ".*")
	w.Secret(user.Username, user.Password)
	w.Connect(v1alpha1.BrokerConnectionSpec{AMQPURI: amqpURI})
	return w
}

// connectWithWrongPassword uses a broker that refuses the user for AMQP, and a fake management API with the cluster's name.
func (w *world) connectWithWrongPassword(victim *world, amqpURI string) {
	GinkgoHelper()
	api := hostile.NewManagement(GinkgoTB(), hostile.At("global-parameters", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		hostile.Text(`{"error": "not_authorized", "reason": "Not monitor user"}`)(w, nil)
	}))
	api.ClusterName = victim.Broker.ClusterName(GinkgoTB())
	w.Secret(victim.Broker.Username, "wrong")
	w.Connect(v1alpha1.BrokerConnectionSpec{AMQPURI: amqpURI, ManagementURI: api.URI})
	w.EventuallyConnection(Condition("Ready", metav1.ConditionFalse, "AuthenticationFailed"))
}

// connectToServers uses servers of the attacker for both protocols.
func (w *world) connectToServers(api *hostile.Management) {
	GinkgoHelper()
	w.Secret("any", "thing")
	w.Connect(v1alpha1.BrokerConnectionSpec{AMQPURI: hostile.NewAMQP(GinkgoTB(), nil).URI, ManagementURI: api.URI})
}

// claimVictimsQueues creates ConsumerQueues that name the victim's current and future objects.
func (w *world) claimVictimsQueues() {
	GinkgoHelper()
	w.Queue("orders", `{}`)
	w.Queue("bills", `{retry: {delayTiers: [{delay: 1m}]}}`)
	w.Queue("pay", `{queue: {maxLength: 5}}`)
}

// forgeIntents writes the annotation that Warren writes before it declares objects, and suspends the ConsumerQueue, so that its own
// connection never contradicts the annotation.
func (w *world) forgeIntents(name string, cluster vhost.Cluster, queues map[string]v1alpha1.Role) {
	GinkgoHelper()
	cq := w.Get(name)
	patch := client.MergeFrom(cq.DeepCopy())
	var objects []v1alpha1.TopologyEntry
	for queue, role := range queues {
		objects = append(objects, v1alpha1.TopologyEntry{Kind: v1alpha1.KindQueue, Name: queue, Role: role})
	}
	text, err := json.Marshal(map[string]any{"uid": cq.UID, "cluster": cluster, "vhost": w.VHost.Name, "objects": objects})
	Expect(err).NotTo(HaveOccurred())
	metav1.SetMetaDataAnnotation(&cq.ObjectMeta, v1alpha1.IntentsAnnotation, string(text))
	cq.Spec.Suspend = true
	Expect(w.Kube.Patch(ctx(), cq, patch)).To(Succeed())
	w.Eventually(name, Condition("Suspended", metav1.ConditionTrue, "Suspended"),
		HaveField("Status.Topology", HaveLen(len(queues))))
}

// queueNames returns the queues of the vhost.
func (w *world) queueNames() []string {
	GinkgoHelper()
	var names []string
	for _, queue := range w.VHost.Definitions().Queues {
		names = append(names, queue.Name)
	}
	return names
}
