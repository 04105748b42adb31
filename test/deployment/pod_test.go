package deployment

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("The pod of the manager", func() {
	pod := func() *corev1.Pod { return podOf(whole.deployment()) }

	It("is admitted to its namespace, which enforces the restricted Pod Security Standard", func() {
		namespace := &corev1.Namespace{}
		Expect(whole.Get(ctx(), client.ObjectKey{Name: system}, namespace)).To(Succeed())
		Expect(namespace.Labels).To(HaveKeyWithValue("pod-security.kubernetes.io/enforce", "restricted"))
		Expect(whole.Create(ctx(), pod(), client.DryRunAll)).To(Succeed())
	})

	for name, loosen := range map[string]func(*corev1.Pod){
		"may run as root":        func(p *corev1.Pod) { p.Spec.SecurityContext.RunAsNonRoot = nil },
		"has no seccomp profile": func(p *corev1.Pod) { p.Spec.SecurityContext.SeccompProfile = nil },
		"keeps capabilities":     func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext.Capabilities = nil },
		"may gain privileges": func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil
		},
	} {
		It("would not be admitted if it "+name, func() {
			loose := pod()
			loosen(loose)
			Expect(whole.Create(ctx(), loose, client.DryRunAll)).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
		})
	}

	It("has a read-only root file system and no access to the node, which the standard does not require", func() {
		spec := pod().Spec
		Expect(spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem).To(HaveValue(BeTrue()))
		Expect(spec.Volumes).To(BeEmpty())
		Expect(spec.HostNetwork || spec.HostPID || spec.HostIPC).To(BeFalse())
		Expect(spec.Containers[0].Ports).To(HaveEach(HaveField("HostPort", BeZero())))
		Expect(spec.SecurityContext.RunAsUser).To(BeNil(), "OpenShift and the like choose the user; the image's is no root either")
	})
})

// podOf returns the pod that the Deployment's controllers would create. envtest does not run them.
func podOf(deployment *appsv1.Deployment) *corev1.Pod {
	template := deployment.Spec.Template
	made := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	made.Namespace, made.Name = deployment.Namespace, "manager"
	return made
}
