package deployment

import (
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
)

var _ = Describe("Installed for single namespaces", Ordered, func() {
	var single *cluster

	BeforeAll(func() {
		single = startCluster()
		for _, name := range []string{"team-a", "team-b", "elsewhere"} {
			single.kubectl("create", "namespace", name)
		}
		single.kubectl("apply", "--server-side", "-f", filepath.Join("testdata", "rabbitmqcluster.yaml"))
	})

	for _, install := range []struct {
		kustomization string
		namespaces    []string
	}{
		{filepath.Join(config, "namespaced"), []string{"default"}},
		{filepath.Join("testdata", "teams"), []string{"team-a", "team-b"}},
	} {
		It("by "+filepath.Base(install.kustomization)+", the manager works there, ignores all others, and needs no more rights", func() {
			single.kubectl("apply", "--server-side", "-k", install.kustomization)
			elsewhere := newShift(single, "elsewhere")
			elsewhere.applyConnection()
			elsewhere.applyQueue()
			for _, namespace := range install.namespaces {
				s := beginShift(single, namespace)
				s.work()
				Expect(s.refused()).To(BeEmpty())
				s.stop()
				Expect(strings.ToLower(s.log.String())).NotTo(ContainSubstring("forbidden"))
			}
			// The manager has looked at everything else it could see by now.
			cq, err := elsewhere.queue()
			Expect(err).NotTo(HaveOccurred())
			Expect(cq.Status.ObservedGeneration).To(BeEquivalentTo(-1))
			Expect(cq.Finalizers).To(BeEmpty())
			Expect(elsewhere.vhost.Definitions().Queues).To(BeEmpty())
		})
	}

	It("it has no rights in the whole cluster", func() {
		bindings := &rbacv1.ClusterRoleBindingList{}
		Expect(single.List(ctx(), bindings)).To(Succeed())
		for _, binding := range bindings.Items {
			Expect(binding.Subjects).NotTo(ContainElement(HaveField("Name", serviceAccount)), binding.Name)
		}
		list := &rbacv1.ClusterRoleList{}
		Expect(single.List(ctx(), list)).To(Succeed())
		Expect(list.Items).NotTo(ContainElement(HaveField("Name", HavePrefix("warren-"))))
	})
})
