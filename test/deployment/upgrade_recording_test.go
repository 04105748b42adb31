package deployment

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/brokers"
)

// recordings has what hack/record-upgrade.sh wrote: manifests.yaml, the manifests of the older Warren, and for each RabbitMQ a
// folder with resources.yaml, all resources with their status, and the definitions of the two vhosts.
var recordings = filepath.Join("testdata", "upgrade")

// team is the namespace of the resources.
const team = "team"

// installation is a cluster with the resources of a team, and the broker that they are about.
type installation struct {
	*cluster

	broker        brokers.Broker
	user          brokers.User
	vhost, paused *brokers.VHost
}

// installOlder makes a cluster with the manifests of the older Warren, and a namespace with the team's Secret.
func installOlder(at brokers.Broker) *installation {
	GinkgoHelper()
	i := &installation{
		cluster: startCluster(), broker: at, user: at.NewUser(GinkgoTB(), "administrator"),
		vhost: at.NewVHostNamed(GinkgoTB(), "upgrade-"), paused: at.NewVHostNamed(GinkgoTB(), "paused-"),
	}
	for _, vhost := range []*brokers.VHost{i.vhost, i.paused} {
		vhost.Grant(i.user, ".*", ".*", ".*")
	}
	i.Kubectl("apply", "--server-side", "-f", filepath.Join(recordings, "manifests.yaml"))
	i.Kubectl("create", "namespace", team)
	Expect(i.Create(ctx(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "rabbitmq"},
		StringData: map[string]string{
			"username": i.user.Username, "password": i.user.Password, "amqpURI": at.AMQPURI, "managementURI": at.ManagementURI,
		},
	})).To(Succeed())
	return i
}

// folder has the recordings of this broker's version.
func (i *installation) folder() string {
	GinkgoHelper()
	return filepath.Join(recordings, series(i.broker))
}

// series is a broker's version without the patch release.
func series(of brokers.Broker) string {
	GinkgoHelper()
	found := regexp.MustCompile(`^\d+\.\d+`).FindString(of.Version)
	Expect(found).NotTo(BeEmpty())
	return found
}

// words are what differs from one broker to the next, and the words that stand for that in the recordings.
func (i *installation) words() []string {
	GinkgoHelper()
	amqp, err := url.Parse(i.broker.AMQPURI)
	Expect(err).NotTo(HaveOccurred())
	id := sha256.Sum256([]byte(i.broker.InternalClusterID(GinkgoTB())))
	return []string{
		i.vhost.Name, "{vhost}", i.paused.Name, "{paused-vhost}", i.broker.Version, "{version}",
		"sha256:" + hex.EncodeToString(id[:16]), "{cluster-id}", i.broker.ClusterName(GinkgoTB()), "{cluster}", amqp.Host, "{endpoint}",
	}
}

// general puts the words of the recordings in the place of what this broker has.
func (i *installation) general(text []byte) []byte {
	GinkgoHelper()
	return []byte(strings.NewReplacer(i.words()...).Replace(string(text)))
}

// special puts what this broker has in the place of the words of the recordings.
func (i *installation) special(text []byte) []byte {
	GinkgoHelper()
	words := i.words()
	for at := 0; at < len(words); at += 2 {
		words[at], words[at+1] = words[at+1], words[at]
	}
	return []byte(strings.NewReplacer(words...).Replace(string(text)))
}

// load reads resources.
func (i *installation) load(path string) []*unstructured.Unstructured {
	GinkgoHelper()
	text, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	var list []*unstructured.Unstructured
	for document := range strings.SplitSeq(string(i.special(text)), "\n---\n") {
		content, err := yaml.YAMLToJSON([]byte(document))
		Expect(err).NotTo(HaveOccurred())
		resource := &unstructured.Unstructured{}
		Expect(resource.UnmarshalJSON(content)).To(Succeed())
		resource.SetNamespace(team)
		list = append(list, resource)
	}
	return list
}

// resources are the team's BrokerConnections and ConsumerQueues as they are now, by kind and name.
func (i *installation) resources() map[string]*unstructured.Unstructured {
	GinkgoHelper()
	found := map[string]*unstructured.Unstructured{}
	for _, kind := range []string{"BrokerConnection", "ConsumerQueue"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind + "List"))
		Expect(i.List(ctx(), list, client.InNamespace(team))).To(Succeed())
		for at := range list.Items {
			found[kind+" "+list.Items[at].GetName()] = &list.Items[at]
		}
	}
	return found
}

func (i *installation) queue(name string) *v1alpha1.ConsumerQueue {
	GinkgoHelper()
	cq := &v1alpha1.ConsumerQueue{}
	Expect(i.Get(ctx(), client.ObjectKey{Namespace: team, Name: name}, cq)).To(Succeed())
	return cq
}

// edit changes the spec of a resource by a merge patch.
func (i *installation) edit(kind, name, spec string) {
	GinkgoHelper()
	i.Kubectl("patch", kind, name, "--namespace="+team, "--type=merge", "--patch", `{"spec": `+spec+`}`)
}

// remove asks for a ConsumerQueue to be deleted.
func (i *installation) remove(name string) {
	GinkgoHelper()
	i.Kubectl("delete", "consumerqueue", name, "--namespace="+team, "--wait=false")
}

// reasonOf is the reason of Ready, or Suspended, once the status speaks of the current spec.
func reasonOf(of *unstructured.Unstructured) string {
	GinkgoHelper()
	status := struct {
		Status struct {
			ObservedGeneration int64              `json:"observedGeneration"`
			Conditions         []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}{}
	Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(of.Object, &status)).To(Succeed())
	if status.Status.ObservedGeneration != of.GetGeneration() {
		return "out of date"
	}
	if meta.IsStatusConditionTrue(status.Status.Conditions, v1alpha1.ConditionSuspended) {
		return v1alpha1.ReasonSuspended
	}
	ready := meta.FindStatusCondition(status.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil {
		return "none"
	}
	return ready.Reason
}

// reasons are those of all resources.
func (i *installation) reasons() map[string]string {
	GinkgoHelper()
	found := map[string]string{}
	for name, resource := range i.resources() {
		found[name] = reasonOf(resource)
	}
	return found
}

// indented is how definitions are recorded: those of the vhost's objects, without what the broker says of itself.
func indented(definitions json.RawMessage) []byte {
	GinkgoHelper()
	all, kept := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	Expect(json.Unmarshal(definitions, &all)).To(Succeed())
	for _, part := range []string{"policies", "exchanges", "queues", "bindings"} {
		kept[part] = all[part]
	}
	text, err := json.Marshal(kept)
	Expect(err).NotTo(HaveOccurred())
	formatted := &bytes.Buffer{}
	Expect(json.Indent(formatted, text, "", "  ")).To(Succeed())
	return append(formatted.Bytes(), '\n')
}
