package deployment

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
)

const (
	chart          = Checkout + "/charts/warren"
	queuesCRD      = "consumerqueues.messaging.warren.dev"
	connectionsCRD = "brokerconnections.messaging.warren.dev"
)

// release is the chart in a cluster, as the release "warren" in the namespace of the operator.
type release struct {
	*cluster

	// tool is a major of Helm, by the name that hack/tool.sh has for it.
	tool string
	// image is what a kubelet runs; empty where there is none, and the manager runs as a process.
	image string
	// process is nil while the manager does not run, or a kubelet runs it.
	process *manager
}

// releaseCluster is the cluster of WARREN_TEST_KUBECONFIG, whose kubelet runs WARREN_TEST_IMAGE, or else a new API server.
func releaseCluster() (c *cluster, image string) {
	GinkgoHelper()
	kubeconfig := os.Getenv("WARREN_TEST_KUBECONFIG")
	if kubeconfig == "" {
		return startCluster(), ""
	}
	image = os.Getenv("WARREN_TEST_IMAGE")
	Expect(image).To(MatchRegexp(`:[^/]+$`), "with WARREN_TEST_KUBECONFIG, WARREN_TEST_IMAGE names an image that the cluster has, with its tag")
	return &cluster{APIServer: Connect(kubeconfig)}, image
}

// helm runs Helm as the administrator, and returns its output.
func (r *release) helm(args ...string) string {
	GinkgoHelper()
	command := exec.CommandContext(ctx(), Checkout+"/hack/tool.sh", append([]string{r.tool, "--namespace=" + system}, args...)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+r.KubeConfig)
	output, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s %v: %s", r.tool, args, output)
	return string(output)
}

// apply installs or upgrades the release to a chart, with further arguments.
func (r *release) apply(verb, chart string, args ...string) {
	GinkgoHelper()
	args = append([]string{verb, "warren", chart}, args...)
	if verb == "install" {
		args = append(args, "--create-namespace")
	}
	if r.image != "" {
		colon := strings.LastIndex(r.image, ":")
		args = append(args, "--set=image.repository="+r.image[:colon], "--set=image.tag="+r.image[colon+1:])
	}
	r.helm(args...)
}

// roll has the Deployment's pod replaced: by the kubelet, or by a process that is started anew.
func (r *release) roll() {
	GinkgoHelper()
	if r.image != "" {
		r.Kubectl("--namespace="+system, "rollout", "status", "deployment/warren-controller-manager", "--timeout=2m")
		return
	}
	r.stop()
	r.process = startManager(r.cluster)
}

func (r *release) stop() {
	GinkgoHelper()
	if r.process != nil {
		r.process.Stop()
		r.process = nil
	}
}

func (r *release) arguments() []string {
	GinkgoHelper()
	return r.deployment().Spec.Template.Spec.Containers[0].Args
}

// hasConsumerTimeout says whether the CRD knows spec.queue.consumerTimeout.
func (r *release) hasConsumerTimeout() bool {
	GinkgoHelper()
	path := "{.spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.queue.properties.consumerTimeout.type}"
	return r.Kubectl("get", "crd", queuesCRD, "--output=jsonpath="+path) != ""
}

// left lists all objects of the release, by kind and name.
func (r *release) left() []string {
	GinkgoHelper()
	kinds := "deployments,services,serviceaccounts,configmaps,secrets,roles,rolebindings,clusterroles,clusterrolebindings," +
		"poddisruptionbudgets,networkpolicies,customresourcedefinitions"
	output := r.Kubectl("get", kinds, "--all-namespaces", "--selector=app.kubernetes.io/instance=warren", "--output=name")
	return strings.Fields(output)
}

// olderChart is the chart as it could have been before: the CRD of ConsumerQueues lacks a field.
func olderChart() string {
	GinkgoHelper()
	folder := filepath.Join(GinkgoT().TempDir(), "warren")
	Expect(os.CopyFS(folder, os.DirFS(chart))).To(Succeed())
	file := filepath.Join(folder, "files", "crds", "messaging.warren.dev_consumerqueues.yaml")
	content, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	crd := map[string]any{}
	Expect(yaml.Unmarshal(content, &crd)).To(Succeed())
	version := crd["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
	unstructured.RemoveNestedField(version, "schema", "openAPIV3Schema", "properties", "spec", "properties", "queue", "properties", "consumerTimeout")
	content, err = yaml.Marshal(crd)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(file, content, 0o600)).To(Succeed())
	return folder
}

// mends has Warren declare a queue again that somebody has deleted.
func mends(w *World) {
	GinkgoHelper()
	w.VHost.DeleteQueue("orders.dlq")
	Eventually(func() bool { return Observed(w.VHost).HasQueue("orders.dlq") }).WithTimeout(deadline.For(time.Minute)).Should(BeTrue())
	w.Ready("orders")
}
