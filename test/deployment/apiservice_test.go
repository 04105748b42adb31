package deployment

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"
)

var _ = Describe("With config/apiservice, dead letters are an API of the cluster", Ordered, func() {
	var (
		s      *shift
		others *authority // that nobody trusts
	)

	BeforeAll(func() {
		proxies, serving := newAuthority(), newAuthority()
		others = newAuthority()
		c := startCluster(passingOnWith(proxies))
		c.Kubectl("apply", "--server-side", "-k", filepath.Join(config, "default"))
		c.Kubectl("apply", "-f", filepath.Join(config, "apiservice", "front_proxy_role_binding.yaml"))
		s = newShift(c, "")
		folder := serving.issue("warren-dead-letters.warren-system.svc")
		s.manager = startManager(c, "--dead-letters-front-proxy", "--dead-letters-cert-path="+folder)
		c.leadTo(s.deadLetters, serving)
		s.applyConnection()
		s.applyQueue()
		s.until(s.queueReady)
		s.VHost.Publish("", "orders.dlq", "a dead letter")
		for _, role := range []string{"viewer", "editor"} {
			c.Kubectl("create", "rolebinding", role, "--namespace="+s.Namespace,
				"--clusterrole=warren-deadletterqueue-"+role+"-role", "--user=the-"+role)
		}
	})

	// by runs kubectl as a user.
	by := func(user string, arguments ...string) (string, error) {
		return s.cluster.TryKubectl(append([]string{"--as=" + user, "--namespace=" + s.Namespace}, arguments...)...)
	}
	messages := func() string {
		return "/apis/deadletters.messaging.warren.dev/v1alpha1/namespaces/" + s.Namespace + "/deadletterqueues/orders/messages"
	}

	It("to kubectl get, with the user's own rights", func() {
		Eventually(func() (string, error) { return by("the-viewer", "get", "deadletterqueues") }).Should(MatchRegexp(`orders +orders\.dlq`))
		Eventually(func() (string, error) { return by("the-viewer", "get", "dlq", "orders", "-o", "yaml") }).Should(ContainSubstring("reason: Parked"))
		_, err := by("the-viewer", "get", "--raw", messages())
		Expect(err).To(MatchError(ContainSubstring("cannot get resource")))
		Eventually(func() (string, error) { return by("the-editor", "get", "--raw", messages()) }).Should(ContainSubstring("a dead letter"))
		_, err = by("a-stranger", "get", "deadletterqueues")
		Expect(err).To(MatchError(ContainSubstring("forbidden")))
	})

	It("and to nobody who only says that the API server has let them pass", func() {
		for name, certificate := range map[string]string{"no certificate": "", "another's certificate": others.issue("front-proxy")} {
			settings := &tls.Config{InsecureSkipVerify: true} // this is about who the client is
			if certificate != "" {
				pair, err := tls.LoadX509KeyPair(filepath.Join(certificate, "tls.crt"), filepath.Join(certificate, "tls.key"))
				Expect(err).NotTo(HaveOccurred())
				settings.Certificates = []tls.Certificate{pair}
			}
			transport := &http.Transport{TLSClientConfig: settings}
			request, err := http.NewRequestWithContext(ctx(), http.MethodGet, "https://"+s.deadLetters+messages(), http.NoBody)
			Expect(err).NotTo(HaveOccurred())
			request.Header.Set("X-Remote-User", "the-editor")
			response, err := (&http.Client{Transport: transport}).Do(request)
			Expect(err).NotTo(HaveOccurred())
			Expect(response.StatusCode).To(Equal(http.StatusUnauthorized), name)
			Expect(response.Body.Close()).To(Succeed())
			transport.CloseIdleConnections()
		}
	})
})

// passingOnWith has an API server pass requests on to others with a certificate of an authority.
func passingOnWith(proxies *authority) func(*envtest.Environment) {
	GinkgoHelper()
	folder := proxies.issue("front-proxy")
	return func(environment *envtest.Environment) {
		arguments := environment.ControlPlane.GetAPIServer().Configure()
		for name, value := range map[string]string{
			"requestheader-client-ca-file":       proxies.file,
			"requestheader-allowed-names":        "front-proxy",
			"requestheader-username-headers":     "X-Remote-User",
			"requestheader-group-headers":        "X-Remote-Group",
			"requestheader-extra-headers-prefix": "X-Remote-Extra-",
			"proxy-client-cert-file":             filepath.Join(folder, "tls.crt"),
			"proxy-client-key-file":              filepath.Join(folder, "tls.key"),
		} {
			arguments.Set(name, value)
		}
	}
}

// leadTo has the APIService lead to an address of this machine: there is neither a network of pods nor cert-manager.
func (c *cluster) leadTo(address string, serving *authority) {
	GinkgoHelper()
	_, port, err := net.SplitHostPort(address)
	Expect(err).NotTo(HaveOccurred())
	number, err := strconv.ParseInt(port, 10, 64)
	Expect(err).NotTo(HaveOccurred())

	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "warren-dead-letters"}}
	Expect(c.Delete(ctx(), service)).To(Succeed())
	service = &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "warren-dead-letters"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}
	Expect(c.Create(ctx(), service)).To(Succeed())

	text, err := os.ReadFile(filepath.Join(config, "apiservice", "apiservice.yaml"))
	Expect(err).NotTo(HaveOccurred())
	api := &unstructured.Unstructured{}
	Expect(yaml.Unmarshal(text, &api.Object)).To(Succeed())
	trusted, err := os.ReadFile(serving.file)
	Expect(err).NotTo(HaveOccurred())
	Expect(unstructured.SetNestedField(api.Object, number, "spec", "service", "port")).To(Succeed())
	Expect(unstructured.SetNestedField(api.Object, base64.StdEncoding.EncodeToString(trusted), "spec", "caBundle")).To(Succeed())
	Expect(c.Create(ctx(), api)).To(Succeed())
	Eventually(func(g Gomega) {
		g.Expect(c.Get(ctx(), client.ObjectKeyFromObject(api), api)).To(Succeed())
		conditions, _, _ := unstructured.NestedSlice(api.Object, "status", "conditions")
		g.Expect(conditions).To(ContainElement(SatisfyAll(HaveKeyWithValue("type", "Available"), HaveKeyWithValue("status", "True"))))
	}).Should(Succeed())
}

// authority issues certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	file        string // its own certificate
}

func newAuthority() *authority {
	GinkgoHelper()
	a := &authority{}
	a.certificate, a.key = sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "an authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil)
	a.file = filepath.Join(GinkgoT().TempDir(), "ca.crt")
	writePEM(a.file, "CERTIFICATE", a.certificate.Raw)
	return a
}

// issue makes a folder with tls.crt and tls.key for a name, of a client or a server.
func (a *authority) issue(name string) string {
	GinkgoHelper()
	certificate, key := sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, a)
	folder := GinkgoT().TempDir()
	writePEM(filepath.Join(folder, "tls.crt"), "CERTIFICATE", certificate.Raw)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	Expect(err).NotTo(HaveOccurred())
	writePEM(filepath.Join(folder, "tls.key"), "PRIVATE KEY", der)
	return folder
}

// sign makes a certificate, signed by an authority or by itself.
func sign(template *x509.Certificate, by *authority) (*x509.Certificate, *ecdsa.PrivateKey) {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := template, key
	if by != nil {
		parent, signer = by.certificate, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	Expect(err).NotTo(HaveOccurred())
	certificate, err := x509.ParseCertificate(der)
	Expect(err).NotTo(HaveOccurred())
	return certificate, key
}

func writePEM(file, kind string, der []byte) {
	GinkgoHelper()
	Expect(os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)).To(Succeed())
}
