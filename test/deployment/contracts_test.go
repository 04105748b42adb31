package deployment

import (
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// asManager is the kubectl flag to use the manager's permissions.
const asManager = "--as=system:serviceaccount:" + system + ":" + serviceAccount

var _ = Describe("With config/contract, the manager", func() {
	var namespace string

	BeforeEach(func() {
		made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
		Expect(whole.Create(ctx(), made)).To(Succeed())
		namespace = made.Name
	})

	It("writes ConfigMaps with the label of contracts", func() {
		Eventually(func() error { // the API server applies a new role with a delay
			_, err := whole.TryKubectl("apply", "--server-side", "-n", namespace, "-f", filepath.Join("testdata", "contract.yaml"), asManager)
			return err
		}).Should(Succeed())
	})

	It("creates no other ConfigMap", func() {
		Eventually(func() error { // the API server applies a new policy with a delay
			_, err := whole.TryKubectl("create", "configmap", "settings", "-n", namespace, "--dry-run=server", asManager)
			return err
		}).Should(MatchError(ContainSubstring("Warren writes only ConfigMaps with the label messaging.warren.dev/contract")))
	})

	It("adopts no other ConfigMap", func() {
		whole.Kubectl("create", "configmap", "orders-contract", "-n", namespace)
		Eventually(func() error {
			_, err := whole.TryKubectl("apply", "--server-side", "-n", namespace, "--dry-run=server", "-f",
				filepath.Join("testdata", "contract.yaml"), asManager)
			return err
		}).Should(MatchError(ContainSubstring("Warren takes over no ConfigMap that lacks the label messaging.warren.dev/contract")))
	})

	It("cannot list or delete ConfigMaps", func() {
		for _, verb := range []string{"list", "watch", "delete"} {
			answer, err := whole.TryKubectl("auth", "can-i", verb, "configmaps", "-n", namespace, asManager)
			Expect(strings.TrimSpace(answer)).To(Equal("no"), "%s: %v", verb, err)
		}
	})
})
