package deployment

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
)

// test/incluster tests the current version of Helm in a cluster with a kubelet.
var _ = Describe("The Helm chart", func() {
	It("is installed, upgraded, rolled back and uninstalled by Helm 3", Extended, Long, func() {
		r := &release{cluster: startCluster(), tool: "helm3"}

		By("installing an older chart")
		r.apply("install", OlderChart(chart))
		Expect(r.KnowsConsumerTimeout()).To(BeFalse())
		r.replaceProcess()
		w := NewWorld(r.APIServer, broker.NewVHost(GinkgoTB()))
		w.Secret(broker.Username, broker.Password)
		w.Connect(v1alpha1.BrokerConnectionSpec{})
		w.Queue("orders", `{deletionPolicy: Delete}`)
		w.Ready("orders")

		By("upgrading to this chart, which upgrades the CRDs")
		r.apply("upgrade", chart, "--set=manager.maxConcurrentReconciles=4")
		Expect(r.KnowsConsumerTimeout()).To(BeTrue())
		Expect(r.arguments()).To(ContainElement("--max-concurrent-reconciles=4"))
		r.replaceProcess()
		expectDriftCorrected(w)

		By("rolling back")
		r.helm("rollback", "warren", "1")
		Expect(r.KnowsConsumerTimeout()).To(BeFalse())
		Expect(r.arguments()).NotTo(ContainElement(HavePrefix("--max-concurrent-reconciles")))
		r.replaceProcess()
		expectDriftCorrected(w)

		By("uninstalling: only CRDs, resources and queues stay")
		r.stop()
		r.helm("uninstall", "warren", "--wait")
		Expect(r.left()).To(ConsistOf(HaveSuffix("/"+ConnectionsCRD), HaveSuffix("/"+QueuesCRD), HaveSuffix("/"+RedrivesCRD),
			HaveSuffix("/"+PurgesCRD)))
		Expect(w.Exists("orders")).To(BeTrue())
		Expect(Observed(w.VHost).HasQueue("orders")).To(BeTrue())

		By("installing again over the retained CRDs")
		r.apply("install", chart)
		Expect(r.KnowsConsumerTimeout()).To(BeTrue())
		r.replaceProcess()
		expectDriftCorrected(w)

		By("removing all of it")
		w.Delete("orders")
		Eventually(func() bool { return w.Exists("orders") }).WithTimeout(deadline.For(time.Minute)).Should(BeFalse())
		r.Kubectl("delete", "brokerconnections", "--all", "--namespace="+w.Namespace)
		r.stop()
		r.helm("uninstall", "warren", "--wait")
		r.Kubectl("delete", "crd", QueuesCRD, ConnectionsCRD, RedrivesCRD, PurgesCRD)
		Expect(r.left()).To(BeEmpty())
		Expect(w.VHost.Definitions().Queues).To(BeEmpty())
	})
})

var _ = Describe("The installation by the Helm chart", Extended, Ordered, func() {
	var r *release

	BeforeAll(func() {
		r = &release{cluster: startCluster(), tool: "helm"}
		prometheus := ModuleFolder("tools", "github.com/prometheus-operator/prometheus-operator") + "/example/prometheus-operator-crd/"
		certManager := ModuleFolder("tools", "github.com/cert-manager/cert-manager") + "/deploy/crds/"
		for _, file := range []string{
			prometheus + "monitoring.coreos.com_servicemonitors.yaml", prometheus + "monitoring.coreos.com_prometheusrules.yaml",
			certManager + "cert-manager.io_certificates.yaml",
		} {
			r.Kubectl("apply", "--server-side", "--filename", file)
		}
		for _, namespace := range []string{"grafana", "monitoring", "team-a", "team-b"} {
			r.Kubectl("create", "namespace", namespace)
		}
		r.Kubectl("create", "serviceaccount", "--namespace=monitoring", "scraper")
	})

	It("can adopt an installation by make deploy without changing it", func() {
		r.Kubectl("apply", "--server-side", "-k", filepath.Join(config, "default"))
		before := r.deployment()
		r.apply("install", chart, "--take-ownership", "--force-conflicts")
		after := r.deployment()
		Expect(after.UID).To(Equal(before.UID))
		Expect(after.Labels).To(HaveKeyWithValue("app.kubernetes.io/managed-by", "Helm"))
		Expect(after.Spec.Template.Spec.Containers[0].Image).To(Equal("ghcr.io/warren-mq/warren:latest"))
	})

	It("is valid with all features for the API server, the Prometheus operator and cert-manager", func() {
		// kubectl owns the fields that it applied above until another manager forces them.
		r.apply("upgrade", chart, "--force-conflicts", "--values="+filepath.Join("..", "chart", "testdata", "everything.yaml"))
		manifest := filepath.Join(GinkgoT().TempDir(), "manifest.yaml")
		Expect(os.WriteFile(manifest, []byte(r.helm("get", "manifest", "warren")), 0o600)).To(Succeed())
		applied := r.Kubectl("apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", manifest)
		for _, kind := range []string{"servicemonitor", "certificate", "networkpolicy", "poddisruptionbudget"} {
			Expect(applied).To(ContainSubstring(kind + "."))
		}
		pod := podOf(r.deployment())
		Expect(r.Create(ctx(), pod, client.DryRunAll)).To(Succeed(), "the namespace enforces restricted Pod Security")
	})

	// issue writes a new certificate of the Service into the Secret, and returns a TLS configuration that trusts only this one.
	issue := func() *tls.Config {
		GinkgoHelper()
		const name = "warren-controller-manager-metrics.warren-system.svc"
		certificate, key, err := cert.GenerateSelfSignedCertKey(name, nil, nil)
		Expect(err).NotTo(HaveOccurred())
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "metrics-tls"},
			Data:       map[string][]byte{"tls.crt": certificate, "tls.key": key},
		}
		if err = r.Create(ctx(), secret); apierrors.IsAlreadyExists(err) {
			err = r.Update(ctx(), secret)
		}
		Expect(err).NotTo(HaveOccurred())
		trusted := x509.NewCertPool()
		Expect(trusted.AppendCertsFromPEM(certificate)).To(BeTrue())
		return &tls.Config{RootCAs: trusted, ServerName: name}
	}

	It("serves metrics with the certificate of a Secret to the configured readers, and reloads the certificate", func() {
		r.apply("upgrade", chart, "--force-conflicts", "--set=metrics.tls.secretName=metrics-tls",
			"--set=metrics.readers[0].namespace=monitoring", "--set=metrics.readers[0].name=scraper")
		trusting := issue()
		m := startManager(r.cluster)
		token := r.token("monitoring", "scraper")
		Eventually(func() (int, error) { return m.scrapeBy(trusting, token) }).Should(Equal(http.StatusOK))

		renewed := issue()
		m.mounts["/etc/warren/metrics"].refresh()
		Eventually(func() (int, error) { return m.scrapeBy(renewed, token) }).Should(Equal(http.StatusOK))
		_, err := m.scrapeBy(trusting, token)
		Expect(err).To(MatchError(ContainSubstring("certificate")))
		m.Stop()
	})

	It("does not start if the configured certificate is missing", func() {
		m := startManager(r.cluster, "--metrics-cert-path="+GinkgoT().TempDir())
		Eventually(m.Ended).Should(BeClosed())
		Expect(m.log.String()).To(ContainSubstring("load the certificate of --metrics-cert-path"))
	})
})
