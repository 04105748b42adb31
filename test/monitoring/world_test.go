package monitoring

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/netfault"
	. "github.com/warren-mq/warren/test/testenv"
)

// world has its own user and connects to its broker through proxies.
type world struct {
	*World

	user             brokers.User
	amqp, management *netfault.Proxy
}

func newWorld(kube *APIServer, tags ...string) *world {
	GinkgoHelper()
	vhost := broker.NewVHost(GinkgoTB())
	w := &world{
		World: NewWorld(kube, vhost), user: broker.NewUser(GinkgoTB(), tags...),
		amqp: netfault.NewProxy(GinkgoTB(), broker.AMQPURI), management: netfault.NewProxy(GinkgoTB(), broker.ManagementURI),
	}
	vhost.Grant(w.user, ".*", ".*", ".*")
	broker.GrantEvents(GinkgoTB(), w.user)
	w.Broker.AMQPURI, w.Broker.ManagementURI = w.amqp.URI, w.management.URI
	DeferCleanup(w.Clear)
	w.Secret(w.user.Username, w.user.Password)
	w.Connect(v1alpha1.BrokerConnectionSpec{})
	return w
}

// is returns the name of a resource as in alerts.
func (w *world) is(alert, name string) string { return alert + " " + w.Namespace + "/" + name }

// tokenFile writes the token of a ServiceAccount that may read metrics to a file.
func tokenFile(kube *APIServer) string {
	GinkgoHelper()
	kube.Kubectl("create", "namespace", "monitoring")
	kube.Kubectl("create", "serviceaccount", "--namespace=monitoring", "prometheus")
	kube.Kubectl("apply", "--filename", filepath.Join(Checkout, "config", "rbac", "metrics_reader_role.yaml"))
	kube.Kubectl("create", "clusterrolebinding", "prometheus", "--clusterrole=metrics-reader", "--serviceaccount=monitoring:prometheus")
	account, request := &corev1.ServiceAccount{}, &authenticationv1.TokenRequest{}
	account.Namespace, account.Name = "monitoring", "prometheus"
	Expect(kube.SubResource("token").Create(ctx(), account, request)).To(Succeed())
	path := filepath.Join(GinkgoT().TempDir(), "token")
	Expect(os.WriteFile(path, []byte(request.Status.Token), 0o600)).To(Succeed())
	return path
}
