package incluster

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	deadletters "github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/netfault"
	. "github.com/warren-mq/warren/test/testenv"
)

const (
	system     = "warren-system"
	deployment = "deployment/warren-controller-manager"
	// now and before are images of this commit and of the one before.
	now    = "warren.local/warren:now"
	before = "warren.local/warren:before"
)

// cluster is a real cluster with its administrator's credentials.
type cluster struct {
	*World

	// checkout is this repository, and previous the commit before, with the manifests of each.
	checkout, previous string
}

// newCluster makes the broker available to pods at RabbitMQ's default ports, which the NetworkPolicy allows.
func newCluster() *cluster {
	GinkgoHelper()
	checkout, err := filepath.Abs(Checkout)
	Expect(err).NotTo(HaveOccurred())
	c := &cluster{checkout: checkout, previous: GinkgoT().TempDir()}
	address := strings.TrimSpace(c.script("hack/cluster.sh", "address"))
	reached := broker
	reached.AMQPURI = netfault.NewProxyAt(GinkgoTB(), net.JoinHostPort(address, "5672"), broker.AMQPURI).URI
	reached.ManagementURI = netfault.NewProxyAt(GinkgoTB(), net.JoinHostPort(address, "15672"), broker.ManagementURI).URI
	c.World = &World{Kube: Connect(os.Getenv("KUBECONFIG")), Broker: reached}
	return c
}

// in returns a World for a namespace of the cluster, with its own vhost.
func (c cluster) in(namespace string) *cluster {
	GinkgoHelper()
	c.World = &World{
		Kube: c.Kube, Namespace: namespace, Broker: c.Broker,
		VHost: broker.NewVHostNamed(GinkgoTB(), "test-incluster-"),
	}
	return &c
}

// buildImages builds and loads the images of this commit and the one before.
func (c *cluster) buildImages() {
	GinkgoHelper()
	commit := os.Getenv("WARREN_UPGRADE_FROM")
	if commit == "" {
		commit = "HEAD~1"
	}
	archive := filepath.Join(c.previous, ".tar")
	c.script("bash", "-c", `git cat-file -e "$0^{commit}" || git fetch --quiet --deepen=1`, commit) // a shallow clone lacks the commit before
	c.script("git", "archive", "--output="+archive, commit)
	c.script("tar", "-x", "-C", c.previous, "-f", archive)
	output := GinkgoT().TempDir()
	c.build(now, output, ".")
	c.build(before, output+"/before", c.previous)
	c.wrap(probeImage, "./test/incluster/probe")
}

func (c *cluster) build(image, output, checkout string) {
	GinkgoHelper()
	c.script("env", "IMG="+image, "PLATFORMS=host", "OUTPUT="+output, "hack/image.sh", "build", checkout)
	archives, err := filepath.Glob(filepath.Join(output, "image-*.tar"))
	Expect(err).NotTo(HaveOccurred())
	Expect(archives).To(HaveLen(1))
	c.script("hack/cluster.sh", "load", archives[0])
}

// wrap builds a program of this checkout and loads an image with only the program.
func (c *cluster) wrap(image, program string) {
	GinkgoHelper()
	output := GinkgoT().TempDir()
	binary, archive := filepath.Join(output, filepath.Base(program)), filepath.Join(output, "image.tar")
	c.script("env", "CGO_ENABLED=0", "go", "build", "-o", binary, program)
	c.script("env", "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0", "go", "-C", "hack/tools", "run", "./image", "wrap", image, binary, archive)
	c.script("hack/cluster.sh", "load", archive)
}

// script runs a command in this checkout and returns its standard output.
func (c *cluster) script(name string, arguments ...string) string {
	GinkgoHelper()
	return c.scriptIn(c.checkout, name, arguments...)
}

// scriptIn runs a command in a folder like a user, with kubectl in PATH.
func (c *cluster) scriptIn(folder, name string, arguments ...string) string {
	GinkgoHelper()
	command := exec.CommandContext(ctx(), name, arguments...)
	command.Dir = folder
	// A user does not have the variables of the make that runs this suite.
	command.Env = append(os.Environ(), "PATH="+os.Getenv("KUBEBUILDER_ASSETS")+":"+os.Getenv("PATH"), "MAKEFLAGS=", "MAKELEVEL=")
	var output, trouble bytes.Buffer
	command.Stdout, command.Stderr = &output, &trouble
	err := command.Run()
	GinkgoWriter.Printf("%s %s\n%s%s", name, strings.Join(arguments, " "), output.String(), trouble.String())
	Expect(err).NotTo(HaveOccurred(), "%s %v: %s%s", name, arguments, output.String(), trouble.String())
	return output.String()
}

// printedCommands returns the commands that `make deploy` prints as next steps.
func printedCommands(output string) []string {
	var list []string
	for _, found := range regexp.MustCompile(`(?m)^    (kubectl .*)$`).FindAllStringSubmatch(output, -1) {
		list = append(list, found[1])
	}
	return list
}

// follow runs the commands that `make deploy` prints, with a copy of the sample of a BrokerConnection that it fills in as the output says.
func (c *cluster) follow(output string) {
	GinkgoHelper()
	const filledIn = "brokerconnection.yaml"
	commands := printedCommands(output)
	Expect(commands).To(ContainElement("kubectl apply --server-side -f " + filledIn))
	for _, command := range commands {
		c.script("sh", "-c", strings.ReplaceAll(command, filledIn, c.filledIn("config/samples/brokerconnection.yaml")))
	}
}

func (c *cluster) filledIn(sample string) string {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(c.checkout, sample))
	Expect(err).NotTo(HaveOccurred())
	text := string(content)
	for placeholder, value := range map[string]string{
		"username: warren":                   "username: " + c.Broker.Username,
		"change-me":                          c.Broker.Password,
		"amqp://rabbitmq.rabbitmq.svc:5672":  c.Broker.AMQPURI,
		"http://rabbitmq.rabbitmq.svc:15672": c.Broker.ManagementURI,
		"vhost: /":                           "vhost: " + c.VHost.Name,
		"resyncInterval: 30s":                "resyncInterval: 2s",
	} {
		Expect(text).To(ContainSubstring(placeholder))
		text = strings.ReplaceAll(text, placeholder, value)
	}
	path := filepath.Join(GinkgoT().TempDir(), "brokerconnection.yaml")
	Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
	return path
}

// deadLetters browses the dead-letter queue of the sample as a ServiceAccount with a built-in role.
func (c *cluster) deadLetters(role string) (string, error) {
	GinkgoHelper()
	c.Kube.Kubectl("create", "serviceaccount", role)
	c.Kube.Kubectl("create", "rolebinding", role, "--clusterrole="+role, "--serviceaccount="+c.Namespace+":"+role)
	defer c.Kube.Kubectl("delete", "serviceaccount/"+role, "rolebinding/"+role)
	token := strings.TrimSpace(c.Kube.Kubectl("create", "token", role, "--audience="+deadletters.Audience))
	path := "/api/v1/namespaces/" + system + "/services/https:warren-dead-letters:https/proxy/apis/" + deadletters.GroupVersion.String() +
		"/namespaces/" + c.Namespace + "/" + deadletters.Resource + "/orders/" + deadletters.SubresourceMessages
	request, err := http.NewRequestWithContext(ctx(), http.MethodGet, c.Kube.Config.Host+path, http.NoBody)
	Expect(err).NotTo(HaveOccurred())
	request.Header.Set(deadletters.TokenHeader, token)
	proxied, err := rest.HTTPClientFor(c.Kube.Config)
	Expect(err).NotTo(HaveOccurred())
	response, err := proxied.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s", response.Status, answer)
	}
	return string(answer), nil
}

// objects lists all objects of the cluster except Events. If kubectl fails, for example because a kind is deleted meanwhile, the list
// contains only the error text.
func (c *cluster) objects() []string {
	GinkgoHelper()
	var kinds []string
	for kind := range strings.FieldsSeq(c.Kube.Kubectl("api-resources", "--verbs=list", "-o", "name")) {
		if !strings.HasPrefix(kind, "events") && kind != "componentstatuses" {
			kinds = append(kinds, kind)
		}
	}
	found, err := c.Kube.TryKubectl("get", strings.Join(kinds, ","), "--all-namespaces", "--no-headers",
		"-o", "custom-columns=K:.kind,S:.metadata.namespace,N:.metadata.name")
	if err != nil {
		return []string{err.Error()}
	}
	var list []string
	for line := range strings.Lines(found) {
		list = append(list, strings.Join(strings.Fields(line), " "))
	}
	return list
}

// warrenEvents returns the number of Events about Warren's resources.
func (c *cluster) warrenEvents() int {
	GinkgoHelper()
	count := 0
	for _, event := range c.EventsSoFar() {
		if strings.HasPrefix(event.Regarding.APIVersion, v1alpha1.GroupVersion.Group) {
			count += Times(event)
		}
	}
	return count
}

// settledWarrenEvents returns the number of Events about Warren's resources when none was added for a second.
func (c *cluster) settledWarrenEvents() int {
	GinkgoHelper()
	count := -1
	Eventually(func() bool {
		last := count
		count = c.warrenEvents()
		return count == last
	}).WithPolling(time.Second).Should(BeTrue())
	return count
}

// pods returns the manager's pods that are not being deleted.
func (c *cluster) pods() []corev1.Pod {
	GinkgoHelper()
	list := &corev1.PodList{}
	Expect(c.Kube.List(ctx(), list, client.InNamespace(system), client.MatchingLabels{"app.kubernetes.io/name": "warren"})).To(Succeed())
	var alive []corev1.Pod
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil {
			alive = append(alive, pod)
		}
	}
	return alive
}

func (c *cluster) pod() string {
	GinkgoHelper()
	var pods []corev1.Pod
	Eventually(func() []corev1.Pod {
		pods = c.pods()
		return pods
	}).Should(HaveLen(1))
	return pods[0].Name
}

// rollOut waits until all replicas of the manager are ready.
func (c *cluster) rollOut() {
	GinkgoHelper()
	c.Kube.Kubectl("rollout", "status", "--namespace", system, deployment, "--timeout="+deadline.For(time.Minute).String())
}

// correctsDrift deletes a queue at the broker and waits until the leading manager has recreated it.
func (c *cluster) correctsDrift() time.Duration {
	GinkgoHelper()
	begin := time.Now()
	c.VHost.DeleteQueue("orders.retry.5m")
	c.ExpectExactly()
	return time.Since(begin)
}

func say(format string, arguments ...any) {
	GinkgoHelper()
	AddReportEntry(fmt.Sprintf(format, arguments...))
	fmt.Fprintf(os.Stdout, "  "+format+"\n", arguments...)
}
