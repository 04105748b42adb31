package e2e

import (
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("The manifests", func() {
	It("of config/default are accepted by the API server, and by restricted Pod Security", func() {
		applied := kube.Kubectl("apply", "--server-side", "--force-conflicts", "-k", filepath.Join("..", "..", "config", "default"))
		Expect(applied).To(ContainSubstring("deployment.apps/warren-controller-manager"))
		Expect(applied).NotTo(ContainSubstring("would violate PodSecurity"))

		deployment := &appsv1.Deployment{}
		Expect(kube.Get(ctx(), client.ObjectKey{Namespace: "warren-system", Name: "warren-controller-manager"}, deployment)).To(Succeed())
		Expect(deployment.Spec.Template.Spec.Containers).To(HaveLen(1))
		Expect(deployment.Spec.Template.Spec.Containers[0].Args).To(ContainElement("--leader-elect"))
	})
})
