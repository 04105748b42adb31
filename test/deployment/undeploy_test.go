package deployment

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	. "github.com/warren-mq/warren/test/testenv"
)

// undeploy runs hack/undeploy.sh, which records the arguments of its kubectl in a file.
func (c *cluster) undeploy(calls string) error {
	GinkgoHelper()
	command := exec.CommandContext(ctx(), filepath.Join(Checkout, "hack", "undeploy.sh"))
	command.Env = append(os.Environ(), "KUBECONFIG="+c.KubeConfig, "KUBECTL="+kubectlWithoutWaiting(calls))
	output, err := command.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, output)
	}
	return err
}

// followRemoval runs the commands of docs/installation.md that delete the manager and remove finalizers.
func (c *cluster) followRemoval() {
	GinkgoHelper()
	page, err := os.ReadFile(filepath.Join(Checkout, "docs", "installation.md"))
	Expect(err).NotTo(HaveOccurred())
	var found []string
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		if strings.Contains(block[1], "delete apiservice ") || strings.Contains(block[1], `{"finalizers":null}`) {
			found = append(found, block[1])
		}
	}
	Expect(found).To(HaveLen(2))
	folder := filepath.Dir(kubectlWithoutWaiting(filepath.Join(GinkgoT().TempDir(), "calls")))
	command := exec.CommandContext(ctx(), "bash", "-euo", "pipefail", "-c", strings.Join(found, ""))
	command.Env = append(os.Environ(), "KUBECONFIG="+c.KubeConfig, "PATH="+folder+":"+os.Getenv("PATH"))
	output, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", output)
}

// createWithFinalizers creates a ConsumerQueue and a BrokerConnection as a manager leaves them.
func (c *cluster) createWithFinalizers(namespace, name string) {
	GinkgoHelper()
	of := func(finalizer string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: []string{finalizer}}
	}
	Expect(c.Create(ctx(), &v1alpha1.ConsumerQueue{ObjectMeta: of(v1alpha1.TopologyFinalizer)})).To(Succeed())
	Expect(c.Create(ctx(), &v1alpha1.BrokerConnection{
		ObjectMeta: of(v1alpha1.ConnectionFinalizer),
		Spec:       v1alpha1.BrokerConnectionSpec{SecretRef: &v1alpha1.LocalObjectReference{Name: "rabbitmq"}},
	})).To(Succeed())
}

// finalizers returns the finalizers of all ConsumerQueues and BrokerConnections.
func (c *cluster) finalizers() []string {
	GinkgoHelper()
	return strings.Fields(c.Kubectl("get", "consumerqueues,brokerconnections", "--all-namespaces",
		`--output=jsonpath={range .items[*]}{range .metadata.finalizers[*]}{@}{"\n"}{end}{end}`))
}

// kubectlWithoutWaiting creates a kubectl that records its arguments and does not wait for deletions, because no controller would
// finish the deletion of a Deployment or namespace.
func kubectlWithoutWaiting(calls string) string {
	GinkgoHelper()
	kubectl, err := filepath.Abs(KubectlPath())
	Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(GinkgoT().TempDir(), "kubectl")
	script := fmt.Sprintf(`#!/bin/sh
echo "$*" >>'%s'
if [ "$1" = delete ]; then set -- "$@" --wait=false; fi
exec '%s' "$@"
`, calls, kubectl)
	Expect(os.WriteFile(path, []byte(script), 0o700)).To(Succeed())
	return path
}

// createSecondInstance creates the Deployment of another release of the chart.
func (c *cluster) createSecondInstance(namespace string) {
	GinkgoHelper()
	second := c.deployment()
	second.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: "second-warren-controller-manager", Labels: second.Labels}
	Expect(c.Create(ctx(), second)).To(Succeed())
}
