package deployment

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	. "github.com/warren-mq/warren/test/testenv"
)

// undeploy runs hack/undeploy.sh, which records the arguments of its kubectl in a file.
func (c *cluster) undeploy(calls string) (string, error) {
	GinkgoHelper()
	command := exec.CommandContext(ctx(), filepath.Join(Checkout, "hack", "undeploy.sh"))
	command.Env = append(os.Environ(), "KUBECONFIG="+c.KubeConfig, "KUBECTL="+kubectlWithoutWaiting(calls))
	output, err := command.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, output)
	}
	return string(output), err
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
