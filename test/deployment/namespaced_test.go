package deployment

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	. "github.com/warren-mq/warren/test/testenv"
)

var _ = Describe("Installed for single namespaces", Extended, Ordered, Long, func() {
	var single *cluster

	BeforeAll(func() {
		single = startCluster()
		for _, name := range []string{"team-a", "team-b", "elsewhere"} {
			single.Kubectl("create", "namespace", name)
		}
		single.Kubectl("apply", "--server-side", "-f", filepath.Join("testdata", "rabbitmqcluster.yaml"))
	})

	for _, install := range []struct {
		kustomization string
		namespaces    []string
	}{
		{filepath.Join(config, "namespaced"), []string{"default"}},
		{filepath.Join("testdata", "teams"), []string{"team-a", "team-b"}},
	} {
		It("by "+filepath.Base(install.kustomization)+", the manager works in these, ignores all others, and needs no further permissions", func() {
			single.Kubectl("apply", "--server-side", "-k", install.kustomization)
			elsewhere := newFixture(single, "elsewhere")
			elsewhere.applyConnection()
			elsewhere.applyQueue()
			for _, namespace := range install.namespaces {
				s := startFixture(single, namespace)
				s.runTasks()
				Expect(s.refused()).To(BeEmpty())
				Expect(s.metrics).To(BeEmpty(), "metrics are off")
				s.Stop()
				Expect(strings.ToLower(s.log.String())).NotTo(ContainSubstring("forbidden"))
			}
			// By now the manager has reconciled everything that it can see.
			cq, err := elsewhere.queue()
			Expect(err).NotTo(HaveOccurred())
			Expect(cq.Status.ObservedGeneration).To(BeEquivalentTo(-1))
			Expect(cq.Finalizers).To(BeEmpty())
			Expect(elsewhere.VHost.Definitions().Queues).To(BeEmpty())
		})
	}

	It("with --metrics-secure=false it serves metrics without authentication", func() {
		m := startManager(single, "--metrics-secure=false", "--metrics-bind-address=:8080")
		Eventually(func() (string, error) {
			response, err := http.Get("http://" + m.metrics + "/metrics")
			if err != nil {
				return "", err
			}
			content, err := io.ReadAll(response.Body)
			return string(content), errors.Join(err, response.Body.Close())
		}).Should(ContainSubstring("go_goroutines"))
		m.Stop()
	})

	It("with --pprof-bind-address it serves Go's profiles, and otherwise nothing", func() {
		address := FreeAddress()
		profiles := func() (string, error) {
			response, err := http.Get("http://" + address + "/debug/pprof/cmdline")
			if err != nil {
				return "", err
			}
			content, err := io.ReadAll(response.Body)
			return string(content), errors.Join(err, response.Body.Close())
		}
		m := startManager(single, "--metrics-secure=false", "--metrics-bind-address=:8080", "--pprof-bind-address="+address)
		Eventually(profiles).Should(ContainSubstring("--pprof-bind-address=" + address))
		m.Stop()
		m = startManager(single, "--metrics-secure=false", "--metrics-bind-address=:8080")
		Eventually(func() error {
			response, err := http.Get("http://" + m.metrics + "/metrics")
			if err == nil {
				err = response.Body.Close()
			}
			return err
		}).Should(Succeed())
		_, err := profiles()
		Expect(err).To(MatchError(syscall.ECONNREFUSED))
		m.Stop()
	})

	// make undeploy and make uninstall delete the CRDs, and with them all resources.
	It("deletes queues according to deletionPolicy when the CRDs are deleted while it runs", func() {
		s := startFixture(single, "team-a")
		DeferCleanup(single.restoreCRDs)
		s.applyConnection()
		s.applyQueue() // with deletionPolicy Delete
		s.until(s.queueReady)
		single.Kubectl("delete", "-k", filepath.Join(config, "crd"))
		Expect(s.VHost.Definitions().Queues).To(BeEmpty())
	})

	It("it has no cluster-wide permissions", func() {
		bindings := &rbacv1.ClusterRoleBindingList{}
		Expect(single.List(ctx(), bindings)).To(Succeed())
		for _, binding := range bindings.Items {
			Expect(binding.Subjects).NotTo(ContainElement(HaveField("Name", serviceAccount)), binding.Name)
		}
		list := &rbacv1.ClusterRoleList{}
		Expect(single.List(ctx(), list)).To(Succeed())
		Expect(list.Items).NotTo(ContainElement(HaveField("Name", HavePrefix("warren-"))))
	})

	It("hack/undeploy.sh changes nothing while another instance runs, which would delete queues with the CRDs", func() {
		single.createSecondInstance("elsewhere")
		DeferCleanup(func() {
			single.Kubectl("delete", "deployment", "second-warren-controller-manager", "--namespace=elsewhere")
		})
		calls := filepath.Join(GinkgoT().TempDir(), "calls")
		Expect(single.undeploy(calls)).To(MatchError(ContainSubstring("would delete queues when their CRDs are deleted. " +
			"Uninstall these first: elsewhere/second-warren-controller-manager")))
		content, err := os.ReadFile(calls)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(content)).NotTo(MatchRegexp(`(?m)^(delete|patch) `))
	})

	It("hack/undeploy.sh changes nothing while a queue is being recreated, whose messages would remain in another queue", func() {
		for name, phase := range map[string]v1alpha1.RecreationPhase{
			"recreated": v1alpha1.RecreationDiverting, "planned": v1alpha1.RecreationWaiting,
		} {
			cq := &v1alpha1.ConsumerQueue{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name}}
			Expect(single.Create(ctx(), cq)).To(Succeed())
			DeferCleanup(func() { Expect(single.Delete(context.Background(), cq)).To(Succeed()) })
			cq.Status.Recreation = &v1alpha1.RecreationStatus{ID: "id", Queue: name, Phase: phase}
			Expect(single.Status().Update(ctx(), cq)).To(Succeed())
		}
		calls := filepath.Join(GinkgoT().TempDir(), "calls")
		Expect(single.undeploy(calls)).To(MatchError(SatisfyAll(
			ContainSubstring("with kubectl warren abort: team-a/recreated"), Not(ContainSubstring("team-a/planned")))))
		content, err := os.ReadFile(calls)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(content)).NotTo(MatchRegexp(`(?m)^(delete|patch) `))
	})

	It("the commands of docs/installation.md for a removal without a checkout remove the finalizers of all resources", func() {
		single.createWithFinalizers("elsewhere", "first")
		single.createWithFinalizers("team-a", "second")
		Expect(single.finalizers()).To(HaveLen(4))
		single.followRemoval()
		Expect(single.finalizers()).To(BeEmpty())
	})

	It("hack/undeploy.sh also removes the Roles in watched namespaces, and the objects of contract, requested-by and prometheus", func() {
		for _, kustomization := range []string{"contract", "requested-by"} {
			single.Kubectl("apply", "--server-side", "-k", filepath.Join(config, kustomization))
		}
		single.Kubectl("apply", "--server-side", "-f", filepath.Join(config, "prometheus", "scraper.yaml"))
		roles := func() string {
			return single.Kubectl("get", "roles,rolebindings", "--all-namespaces", "--field-selector=metadata.namespace!="+system, "--output=name")
		}
		Expect(roles()).To(ContainSubstring("warren-manager-role"))
		Expect(single.undeploy(filepath.Join(GinkgoT().TempDir(), "calls"))).To(Succeed())
		Expect(roles()).NotTo(ContainSubstring("warren"))
		Expect(single.Kubectl("get", "--output=name", "clusterroles,clusterrolebindings,"+
			"validatingadmissionpolicies,validatingadmissionpolicybindings,mutatingadmissionpolicies,mutatingadmissionpolicybindings")).
			NotTo(ContainSubstring("warren"))
	})
})
