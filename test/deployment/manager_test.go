package deployment

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/warren-mq/warren/test/testenv"
)

// manager is a running manager.
type manager struct {
	*Manager

	// recorder forwards all its requests to the API server.
	recorder *recorder
	log      locked
	metrics  string
	probes   string
	// deadLetters is the address of the dead-letter API, and pod the name of the manager's pod.
	deadLetters, pod string
	// mounts are local directories that replace the mounts of the container.
	mounts map[string]*secretMount
}

// startManager runs the binary as the kubelet would run the Deployment's container: with its arguments, its environment and a token
// of its ServiceAccount, and nothing else. A pod differs in these points:
// - A kubeconfig has the address of the API server and the token, instead of files in /var/run/secrets.
// - --leader-election-namespace has the namespace of the pod.
// - The manager listens at free ports of the loopback, because there is no pod network.
// - Folders of the test replace the mounted Secrets.
func startManager(c *cluster, further ...string) *manager {
	GinkgoHelper()
	deployment := c.deployment()
	pod := deployment.Spec.Template.Spec
	m := &manager{recorder: newRecorder(c.Config), mounts: mountSecrets(c, deployment)}
	kubeconfig := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	m.writeKubeconfig(kubeconfig, c.token(deployment.Namespace, pod.ServiceAccountName))

	command := exec.Command(binary, m.arguments(append(slices.Clone(pod.Containers[0].Args), further...))...)
	command.Args = append(command.Args, "--leader-election-namespace="+deployment.Namespace, "--kubeconfig="+kubeconfig)
	command.Env = m.environment(c, deployment)
	command.Dir = GinkgoT().TempDir()
	command.Stdout, command.Stderr = &m.log, &m.log
	m.Manager = Run(command)
	DeferCleanup(func() {
		_ = command.Process.Kill() // without a permission, it may not stop cleanly
		<-m.Ended
		GinkgoWriter.Printf("The manager's log:\n%s", m.log.String())
	})
	return m
}

func (m *manager) writeKubeconfig(path, token string) {
	GinkgoHelper()
	file := clientcmdapi.NewConfig()
	file.Clusters["c"] = &clientcmdapi.Cluster{Server: m.recorder.URI, CertificateAuthorityData: m.recorder.CA}
	file.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token}
	file.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	file.CurrentContext = "x"
	Expect(clientcmd.WriteToFile(*file, path)).To(Succeed())
}

// arguments replaces the listen addresses with loopback addresses.
func (m *manager) arguments(given []string) []string {
	GinkgoHelper()
	args := slices.Clone(given)
	for i, arg := range args {
		flag, _, _ := strings.Cut(arg, "=")
		switch flag {
		case "--health-probe-bind-address":
			m.probes = FreeAddress()
			args[i] = flag + "=" + m.probes
		case "--metrics-bind-address":
			m.metrics = FreeAddress()
			args[i] = flag + "=" + m.metrics
		case "--dead-letters-bind-address":
			m.deadLetters = FreeAddress()
			args[i] = flag + "=" + m.deadLetters
		}
		for path, mount := range m.mounts {
			args[i] = strings.Replace(args[i], path, mount.folder, 1)
		}
	}
	return args
}

// environment returns the environment of the container, without the test's own. A pod that does not run replaces the manager's
// pod.
func (m *manager) environment(c *cluster, deployment *appsv1.Deployment) []string {
	GinkgoHelper()
	list := []string{}
	for _, variable := range deployment.Spec.Template.Spec.Containers[0].Env {
		value := variable.Value
		if from := variable.ValueFrom; from != nil {
			Expect(from.FieldRef).NotTo(BeNil(), "variable %s: this test does not know where its value comes from", variable.Name)
			switch from.FieldRef.FieldPath {
			case "metadata.namespace":
				value = deployment.Namespace
			case "metadata.name":
				m.pod = c.createPod(deployment)
				value = m.pod
			default:
				Fail(variable.Name + ": this test does not support the field " + from.FieldRef.FieldPath)
			}
		}
		list = append(list, variable.Name+"="+value)
	}
	return list
}

// createPod creates a pod like the Deployment does.
func (c *cluster) createPod(deployment *appsv1.Deployment) string {
	GinkgoHelper()
	pod := podOf(deployment)
	pod.Name, pod.GenerateName = "", "manager-"
	Expect(c.Create(ctx(), pod)).To(Succeed())
	DeferCleanup(func() {
		Expect(c.Delete(context.Background(), pod, client.GracePeriodSeconds(0))).To(Succeed())
	})
	return pod.Name
}

var refusal = regexp.MustCompile(`cannot (\S+) resource "([^"]+)" in API group "([^"]*)"`)

// refused returns the requests that the API server has refused, from the manager's log.
func (m *manager) refused() []permission {
	var list []permission
	for _, found := range refusal.FindAllStringSubmatch(strings.ReplaceAll(m.log.String(), `\"`, `"`), -1) {
		refused := permission{verb: found[1], resource: found[2], group: found[3]}
		if !slices.Contains(list, refused) {
			list = append(list, refused)
		}
	}
	return list
}

// scrape reads the metrics over HTTPS, with a token unless it is empty, and returns the status code. It offers HTTP/2, which the
// manager does not serve.
func (m *manager) scrape(token string) (int, error) {
	return m.scrapeBy(&tls.Config{InsecureSkipVerify: true}, token) // the certificate is self-signed
}

// scrapeBy is scrape with a TLS configuration.
func (m *manager) scrapeBy(config *tls.Config, token string) (int, error) {
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx(), http.MethodGet, "https://"+m.metrics+"/metrics", http.NoBody)
	if err != nil {
		return 0, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Do(request)
	if err != nil {
		return 0, fmt.Errorf("scrape: %w", err)
	}
	if response.ProtoMajor != 1 {
		return 0, fmt.Errorf("scrape: served by %s", response.Proto)
	}
	return response.StatusCode, response.Body.Close()
}
