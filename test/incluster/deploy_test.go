package incluster

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
)

const probeImage = "warren.local/probe:1"

var _ = Describe("The operator in a cluster", Ordered, func() {
	var (
		c      *cluster
		atHand []string
	)

	BeforeAll(func() {
		loadImages()
		c = prepared.in("default")
		c.Kube.Kubectl("create", "namespace", "monitoring")
		c.Kube.Kubectl("label", "namespace", "monitoring", "metrics=enabled")
		c.Kube.Kubectl("create", "serviceaccount", "--namespace=monitoring", "prometheus")
		c.Kube.Kubectl("create", "serviceaccount", "--namespace=monitoring", "stranger")
		c.Kube.Kubectl("create", "secret", "generic", "rabbitmq") // belongs to the user: the operator neither creates nor deletes it
		atHand = c.settled("monitoring")
	})

	It("of the commit before is installed, and the quickstart sample becomes Ready", func() {
		c.scriptIn(c.previous, "make", "deploy", "IMG="+before)
		c.Kube.Kubectl("apply", "-k", c.checkout+"/config/network-policy")
		c.rollOut()
		c.Kube.Kubectl("apply", "--server-side", "-f", c.filledIn("config/samples/brokerconnection.yaml"))
		c.Kube.Kubectl("apply", "-f", c.checkout+"/config/samples/quickstart.yaml")
		c.Ready("orders")
		c.ExpectExactly()
	})

	It("is upgraded in place: the commands that make deploy prints make the sample Ready, and nothing changes at the broker", func() {
		c.VHost.Publish("", "orders", "one", "two")
		declared, events := c.VHost.Definitions(), c.settledWarrenEvents()
		old := c.pod()

		c.follow(c.script("make", "deploy", "IMG="+now))

		Eventually(c.pods).Should(HaveEach(HaveField("Spec.Containers", HaveExactElements(HaveField("Image", now)))))
		Eventually(c.pod).ShouldNot(Equal(old))
		Eventually(c.leader).WithTimeout(deadline.For(30 * time.Second)).Should(Equal(c.pod()))
		c.Ready("orders")
		Expect(c.VHost.Definitions()).To(Equal(declared))
		Consistently(c.warrenEvents).Should(Equal(events), "an upgrade causes no Events")
		Eventually(func() int { return c.VHost.Ready("orders") }).Should(Equal(2))
	})

	It("runs the binary of this commit", func() {
		version := c.Kube.Kubectl("exec", "--namespace", system, deployment, "--", "/manager", "--version")
		Expect(version).To(HavePrefix("warren "))
		Expect(version).To(ContainSubstring(strings.TrimSpace(c.script("git", "rev-parse", "HEAD"))))
	})

	It("has the restrictions of its manifest at run time", func() {
		pod := c.pod()
		c.Kube.Kubectl("debug", "--namespace", system, "pod/"+pod, "--image="+probeImage, "--image-pull-policy=IfNotPresent",
			"--target=manager", "--profile=restricted", "--container=probe", "--", "/probe")
		probe := func() string {
			output, _ := c.Kube.TryKubectl("logs", "--namespace", system, pod, "--container=probe") // the container may not have started
			return output
		}
		Eventually(probe).Should(ContainSubstring("ReadOnlyRoot")) // the last line of the output
		for _, fact := range []string{
			"Uid 65532 65532 65532 65532", "Gid 65532 65532 65532 65532", "CapEff 0000000000000000", "CapBnd 0000000000000000",
			"NoNewPrivs 1", "Seccomp 2", "ReadOnlyRoot true",
		} {
			Eventually(probe).Should(ContainSubstring(fact + "\n"))
		}
	})

	It("does not share its namespace with less confined pods", func() {
		_, err := c.Kube.TryKubectl("run", "loose", "--namespace", system, "--image="+probeImage, "--privileged", "--dry-run=server")
		Expect(err).To(MatchError(ContainSubstring(`violates PodSecurity "restricted`)))
	})

	It("serves its metrics only to a ServiceAccount with the role", func() {
		c.Kube.Kubectl("create", "clusterrolebinding", "prometheus-warren",
			"--clusterrole=warren-metrics-reader", "--serviceaccount=monitoring:prometheus")
		DeferCleanup(func() { c.Kube.Kubectl("delete", "clusterrolebinding", "prometheus-warren") })
		scrape := func(account string) (string, error) {
			return c.Kube.TryKubectl("--kubeconfig=/dev/null", "--server=https://"+c.forward("8443"), "--insecure-skip-tls-verify",
				"--token="+strings.TrimSpace(c.Kube.Kubectl("create", "token", "--namespace=monitoring", account)), "get", "--raw", "/metrics")
		}
		Eventually(scrape).WithArguments("prometheus").Should(SatisfyAll(
			MatchRegexp(`warren_build_info\{[^}]*revision="%s"[^}]*\} 1`, strings.TrimSpace(c.script("git", "rev-parse", "HEAD"))),
			ContainSubstring("controller_runtime_reconcile_total")))
		_, err := scrape("stranger")
		Expect(err).To(MatchError(ContainSubstring("Forbidden")))
	})

	It("serves dead letters only to a ServiceAccount with the role, through the proxy of the API server", func() {
		c.VHost.Publish("", "orders.dlq", "dead")
		DeferCleanup(func() { c.VHost.Purge("orders.dlq") })
		Eventually(func() (string, error) { return c.deadLetters("edit") }).Should(ContainSubstring(`"body":"dead"`))
		_, err := c.deadLetters("view")
		Expect(err).To(MatchError(ContainSubstring(`cannot get resource \"deadletterqueues/messages\"`)))
	})

	// The release workflow also tests these rules on the API server of the oldest supported Kubernetes.
	It("makes the API server refuse a Redrive with another requester, and changes of a Redrive", func() {
		create := func(spec string, arguments ...string) error {
			file := filepath.Join(GinkgoT().TempDir(), "redrive.yaml")
			Expect(os.WriteFile(file, []byte(`apiVersion: messaging.warren.dev/v1alpha1
kind: Redrive
metadata: {name: rules, namespace: default}
spec: {consumerQueueRef: {name: orders}, suspend: true, `+spec+`}
`), 0o600)).To(Succeed())
			_, err := c.Kube.TryKubectl(append([]string{"create", "-f", file}, arguments...)...)
			return err
		}
		Expect(create(`requestedBy: mallory`, "--dry-run=server")).To(
			MatchError(ContainSubstring("who creates the Redrive: correct or remove spec.requestedBy")))
		Expect(create(`rate: 0`, "--dry-run=server")).To(MatchError(ContainSubstring("must be between 1 and 100000 messages a second, or Unlimited")))
		Expect(create(`maxMessages: 5`)).To(Succeed())
		DeferCleanup(func() { c.Kube.Kubectl("delete", "redrive", "rules", "--namespace=default") })
		change := func(patch string) error {
			_, err := c.Kube.TryKubectl("patch", "redrive", "rules", "--namespace=default", "--type=merge", "-p", patch)
			return err
		}
		Expect(change(`{"spec":{"maxMessages":6}}`)).To(
			MatchError(ContainSubstring("only rate, suspend, cancel and ttlSecondsAfterFinished can be changed: create another Redrive")))
		Expect(change(`{"spec":{"rate":6}}`)).To(Succeed())
	})

	It("continues after its pod was killed", func() {
		next := c.watchLeadership()
		c.Kube.Kubectl("delete", "pod", "--namespace", system, c.pod(), "--grace-period=0", "--force")
		say("drift is corrected %.1f s after the kill", c.correctsDrift().Seconds())
		say("nobody led for %.1f s after the pod was killed", next().gap.Seconds())
		c.rollOut()
	})

	It("hands over to its second replica when the node of the first is drained", func() {
		c.Kube.Kubectl("scale", "--namespace", system, deployment, "--replicas=2")
		c.rollOut()
		leader := c.leader()
		Eventually(c.pods).Should(HaveLen(2))
		standby := slices.DeleteFunc(c.pods(), func(pod corev1.Pod) bool { return pod.Name == leader })
		Expect(standby).To(HaveLen(1))
		next := c.watchLeadership()

		// The cluster has one node, so only the leader's pod is evicted, and no new pod can start elsewhere.
		node := standby[0].Spec.NodeName
		c.Kube.Kubectl("label", "pod", "--namespace", system, leader, "drained=yes")
		DeferCleanup(func() { c.Kube.Kubectl("uncordon", node) })
		c.Kube.Kubectl("drain", node, "--pod-selector=drained=yes")

		took := next()
		say("nobody led for %.1f s while the node was drained: %s gave the lease back, %s took it", took.gap.Seconds(), took.from, took.to)
		Expect(took.from).To(Equal(leader))
		Expect(took.to).To(Equal(standby[0].Name))
		Expect(took.givenBack).To(BeTrue(), "the lease is given back, not waited for")
		Expect(took.gap).To(BeNumerically("<", deadline.For(3*time.Second)))
		c.correctsDrift()
		Eventually(func() error {
			_, err := c.deadLetters("edit")
			return err
		}).Should(Succeed(), "the dead-letter API has moved along")
	})

	It("is removed by make undeploy without leaving an object, and its queues stay with their messages", func() {
		declared := c.VHost.Definitions()
		c.script("make", "undeploy")
		Eventually(func() []string { return added(atHand, c.objects()) }).WithTimeout(deadline.For(30 * time.Second)).Should(BeEmpty())
		Expect(c.VHost.Definitions()).To(Equal(declared))
		Expect(c.VHost.Policies()).To(BeEmpty())
		Eventually(func() int { return c.VHost.Ready("orders") }).Should(Equal(2))
	})

	It("finds its queues when it is installed again", func() {
		declared := c.VHost.Definitions()
		c.follow(c.script("make", "deploy", "IMG="+now))
		Expect(c.Ready("orders").Status.Topology).To(HaveEach(HaveField("State", v1alpha1.StateInSync)))
		Expect(c.VHost.Definitions()).To(Equal(declared))
		Eventually(func() int { return c.VHost.Ready("orders") }).Should(Equal(2))
	})

	It("is removed in the same way while its broker is unreachable", func() {
		c.Kube.Kubectl("patch", "secret", "rabbitmq", "--type=merge", "-p", `{"stringData":{"amqpURI":"amqp://192.0.2.1:5672"}}`)
		c.script("make", "undeploy")
		Eventually(func() []string { return added(atHand, c.objects()) }).WithTimeout(deadline.For(30 * time.Second)).Should(BeEmpty())
	})
})

// settled returns all objects after Kubernetes has created the default objects of a new namespace.
func (c *cluster) settled(namespace string) []string {
	GinkgoHelper()
	Eventually(c.objects).Should(ContainElements("ConfigMap "+namespace+" kube-root-ca.crt", "ServiceAccount "+namespace+" default"))
	return c.objects()
}

// added returns the items of the second list that are not in the first.
func added(first, second []string) []string {
	return slices.DeleteFunc(slices.Clone(second), func(object string) bool { return slices.Contains(first, object) })
}

// forward forwards a local port to the manager's pod until the test ends, and returns its address.
func (c *cluster) forward(port string) string {
	GinkgoHelper()
	command := exec.CommandContext(ctx(), KubectlPath(), "--kubeconfig", c.Kube.KubeConfig,
		"port-forward", "--namespace", system, deployment, ":"+port)
	output, err := command.StdoutPipe()
	Expect(err).NotTo(HaveOccurred())
	command.Stderr = GinkgoWriter
	Expect(command.Start()).To(Succeed())
	DeferCleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait() // ends with the signal
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	Expect(err).NotTo(HaveOccurred())
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(line)
	Expect(address).NotTo(BeEmpty(), line)
	return address
}
