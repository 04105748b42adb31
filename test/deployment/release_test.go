package deployment

import (
	"os"
	"os/exec"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
)

const chart = Checkout + "/charts/warren"

// release is the chart, installed as release "warren" in the operator's namespace.
type release struct {
	*cluster

	// tool is a major version of Helm, by its name in hack/tool.sh.
	tool string
	// process is nil while the manager does not run.
	process *manager
}

// helm runs Helm as the administrator and returns its output.
func (r *release) helm(args ...string) string {
	GinkgoHelper()
	command := exec.CommandContext(ctx(), Checkout+"/hack/tool.sh", append([]string{r.tool, "--namespace=" + system}, args...)...)
	command.Env = append(os.Environ(), "KUBECONFIG="+r.KubeConfig)
	output, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s %v: %s", r.tool, args, output)
	return string(output)
}

// apply installs or upgrades the release, with further arguments.
func (r *release) apply(verb, chart string, args ...string) {
	GinkgoHelper()
	args = append([]string{verb, "warren", chart}, args...)
	if verb == "install" {
		args = append(args, "--create-namespace")
	}
	r.helm(args...)
}

// replaceProcess replaces the process, as a kubelet replaces the Deployment's pod.
func (r *release) replaceProcess() {
	GinkgoHelper()
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

// left returns all objects of the release, by kind and name.
func (r *release) left() []string {
	GinkgoHelper()
	kinds := "deployments,services,serviceaccounts,configmaps,secrets,roles,rolebindings,clusterroles,clusterrolebindings," +
		"poddisruptionbudgets,networkpolicies,customresourcedefinitions"
	output := r.Kubectl("get", kinds, "--all-namespaces", "--selector=app.kubernetes.io/instance=warren", "--output=name")
	return strings.Fields(output)
}

// expectDriftCorrected deletes a queue and waits until Warren has recreated it.
func expectDriftCorrected(w *World) {
	GinkgoHelper()
	w.VHost.DeleteQueue("orders.dlq")
	Eventually(func() bool { return Observed(w.VHost).HasQueue("orders.dlq") }).WithTimeout(deadline.For(time.Minute)).Should(BeTrue())
	w.Ready("orders")
}
