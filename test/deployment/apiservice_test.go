package deployment

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	deadletters "github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/hack/authority"
	"github.com/warren-mq/warren/test/deadline"
	. "github.com/warren-mq/warren/test/testenv"
)

var _ = Describe("With config/apiservice, the dead-letter API is served by the API server", Extended, Ordered, func() {
	var (
		s                  *fixture
		proxies, untrusted *authority.Authority // of the API server as a proxy, and one that no server trusts
	)

	BeforeAll(func() {
		serving := newAuthority()
		proxies, untrusted = newAuthority(), newAuthority()
		tokens := filepath.Join(GinkgoT().TempDir(), "tokens.csv")
		c := startCluster(withAggregation(proxies), func(environment *envtest.Environment) {
			var lines strings.Builder
			for _, role := range deadLetterRoles {
				fmt.Fprintf(&lines, "token-of-the-%s,the-%s,%s\n", role, role, role)
			}
			Expect(os.WriteFile(tokens, []byte(lines.String()), 0o600)).To(Succeed())
			environment.ControlPlane.GetAPIServer().Configure().Set("token-auth-file", tokens)
		})
		c.Kubectl("apply", "--server-side", "-k", filepath.Join(config, "default"))
		c.Kubectl("apply", "-f", filepath.Join(config, "apiservice", "front_proxy_role_binding.yaml"))
		s = newFixture(c, "")
		folder := issue(serving, "warren-dead-letters.warren-system.svc")
		s.manager = startManager(c, "--dead-letters-front-proxy", "--dead-letters-cert-path="+folder)
		c.pointAPIServiceTo(s.deadLetters, serving)
		s.applyConnection()
		s.applyQueue()
		s.until(s.queueReady)
		s.VHost.Publish("", "orders.dlq", "a dead letter")
		for _, role := range deadLetterRoles {
			c.Kubectl("create", "serviceaccount", role, "--namespace="+s.Namespace)
			c.Kubectl("create", "rolebinding", role, "--namespace="+s.Namespace, "--clusterrole=warren-deadletterqueue-"+role+"-role",
				"--user=the-"+role, "--serviceaccount="+s.Namespace+":"+role)
		}
	})

	// by runs kubectl as a user.
	by := func(user string, arguments ...string) (string, error) {
		return s.cluster.TryKubectl(append([]string{"--as=" + user, "--namespace=" + s.Namespace}, arguments...)...)
	}
	queues := func() string {
		return "/apis/deadletters.messaging.warren.dev/v1alpha1/namespaces/" + s.Namespace + "/deadletterqueues"
	}
	messages := func() string { return queues() + "/orders/messages" }
	// answers are the status codes for a list of queues, a summary, a page of messages and an export.
	answers := func(d endpoint) (codes []int) {
		GinkgoHelper()
		for _, path := range []string{"", "/orders", "/orders/messages", "/orders/export"} {
			code, _ := d.ask(queues() + path)
			codes = append(codes, code)
		}
		return codes
	}

	It("for kubectl get with the user's permissions", func() {
		Eventually(func() (string, error) { return by("the-viewer", "get", "deadletterqueues") }).Should(MatchRegexp(`orders +orders\.dlq`))
		Eventually(func() (string, error) { return by("the-viewer", "get", "dlq", "orders", "-o", "yaml") }).Should(ContainSubstring("reason: Parked"))
		_, err := by("the-viewer", "get", "--raw", messages())
		Expect(err).To(MatchError(ContainSubstring("cannot get resource")))
		Eventually(func() (string, error) { return by("the-editor", "get", "--raw", messages()) }).Should(ContainSubstring("a dead letter"))
		_, err = by("a-stranger", "get", "deadletterqueues")
		Expect(err).To(MatchError(ContainSubstring("forbidden")))
	})

	// Address 1 is the manager, address 2 is the API server.
	for role, want := range map[string][]int{
		"viewer": {http.StatusOK, http.StatusOK, http.StatusForbidden, http.StatusForbidden},
		"editor": {http.StatusOK, http.StatusOK, http.StatusOK, http.StatusForbidden},
		"admin":  {http.StatusOK, http.StatusOK, http.StatusOK, http.StatusOK},
	} {
		unknown := slices.Repeat([]int{http.StatusUnauthorized}, 4)

		It("for the role "+role+", through the API server for all its users, and by the manager for tokens with its audience", func() {
			user, err := s.cluster.Environment.AddUser(envtest.User{Name: "the-" + role}, nil)
			Expect(err).NotTo(HaveOccurred())
			certificate, err := tls.X509KeyPair(user.Config().CertData, user.Config().KeyData)
			Expect(err).NotTo(HaveOccurred())
			ofAPIServer, ofWarren := s.Token(role), s.Token(role, "warren")
			one, two := "https://"+s.deadLetters, strings.TrimSuffix(s.cluster.Config.Host, "/")
			for _, try := range []struct {
				what     string
				endpoint endpoint
				want     []int
			}{
				{"a user's token, to the API server", endpoint{address: two, token: "token-of-the-" + role}, want},
				{"a user's certificate, to the API server", endpoint{address: two, certificate: &certificate}, want},
				{"a ServiceAccount's token, to the API server", endpoint{address: two, token: ofAPIServer}, want},
				{"a ServiceAccount's token for Warren, to the API server", endpoint{address: two, token: ofWarren}, unknown},

				{"a user's token, to the manager", endpoint{address: one, token: "token-of-the-" + role}, unknown},
				{"a user's certificate, to the manager", endpoint{address: one, certificate: &certificate}, unknown},
				{"a ServiceAccount's token, to the manager", endpoint{address: one, token: ofAPIServer}, unknown},
				{"a ServiceAccount's token for Warren, to the manager", endpoint{address: one, token: ofWarren}, want},
				{"the same with a user's certificate", endpoint{address: one, token: ofWarren, certificate: &certificate}, want},
			} {
				Eventually(answers).WithArguments(try.endpoint).Should(Equal(try.want), try.what)
			}
			_, refusal := endpoint{address: one, certificate: &certificate}.ask(messages())
			Expect(refusal).To(ContainSubstring("Client certificates and tokens for the API server are not accepted"))
		})
	}

	It("for kubectl warren, which names a missing role", func() {
		plugins := BuildPlugin()
		for _, kind := range []string{"consumerqueue", "redrive", "purge"} {
			s.cluster.Kubectl("create", "rolebinding", kind, "--namespace="+s.Namespace,
				"--clusterrole=warren-"+kind+"-viewer-role", "--user=the-viewer")
		}
		warren := func(user string, arguments ...string) (string, error) {
			command := exec.CommandContext(ctx(), KubectlPath(), append([]string{"warren", "dlq"}, arguments...)...)
			command.Args = append(command.Args, "--namespace="+s.Namespace, "--as="+user)
			command.Env = append(os.Environ(), "KUBECONFIG="+s.cluster.KubeConfig, "PATH="+plugins+":"+os.Getenv("PATH"))
			output, err := command.CombinedOutput()
			return string(output), err
		}
		Eventually(func() (string, error) { return warren("the-viewer", "ls") }).Should(MatchRegexp(`orders +orders\.dlq`))
		for _, allowed := range []struct{ user, command, says string }{
			{"the-viewer", "show", "Queue orders.dlq: 1 message."},
			{"the-editor", "peek", "a dead letter"},
			{"the-admin", "export", `{"kind":"ExportEnd","count":1,"ready":1,"partial":false}`},
		} {
			Eventually(func() (string, error) { return warren(allowed.user, allowed.command, "orders") }).Should(ContainSubstring(allowed.says))
		}
		missing := "Ask for the role in namespace \"" + s.Namespace +
			"\": view is enough to count, edit to read messages, admin to export them."
		for _, refused := range []struct {
			user, says string
			arguments  []string
		}{
			{"the-viewer", missing, []string{"peek", "orders"}},
			{"the-viewer", missing, []string{"export", "orders"}},
			{"the-editor", missing, []string{"export", "orders"}},
			{"the-viewer", "moving dead letters needs the role edit", []string{"redrive", "orders", "--yes"}},
			{"the-viewer", "deleting dead letters needs the role admin in the namespace; view is enough to list Purges", []string{"purge", "orders", "--expected-at-most=1", "--yes"}},
		} {
			Eventually(func() string {
				output, err := warren(refused.user, refused.arguments...)
				Expect(err).To(HaveOccurred(), "%v", refused)
				return output
			}).Should(ContainSubstring(refused.says))
		}
	})

	It("but not for clients that forge the headers of the API server", func() {
		load := func(folder string) *tls.Certificate {
			GinkgoHelper()
			certificate, err := tls.LoadX509KeyPair(filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key"))
			Expect(err).NotTo(HaveOccurred())
			return &certificate
		}
		user, err := s.cluster.Environment.AddUser(envtest.User{Name: "front-proxy"}, nil)
		Expect(err).NotTo(HaveOccurred())
		users, err := tls.X509KeyPair(user.Config().CertData, user.Config().KeyData)
		Expect(err).NotTo(HaveOccurred())
		for name, certificate := range map[string]*tls.Certificate{
			"no certificate": nil, "a user's certificate with the same name": &users,
			"a certificate of an untrusted authority":               load(issue(untrusted, "front-proxy")),
			"a certificate of the same authority with another name": load(issue(proxies, "kubelet")),
		} {
			spoofer := endpoint{address: "https://" + s.deadLetters, certificate: certificate, header: http.Header{
				"X-Remote-User": {"the-admin"}, "X-Remote-Group": {"system:masters"},
			}}
			Expect(answers(spoofer)).To(HaveEach(http.StatusUnauthorized), name)
			spoofer.token = s.Token("viewer", "warren")
			Eventually(answers).WithArguments(spoofer).Should(Equal([]int{200, 200, 403, 403}), "%s, and the token of another", name)
		}
	})

	// The namespace controller lists these resources first, and does not delete the namespace while the list fails.
	discovered := func() ([]*metav1.APIResourceList, error) {
		finder, err := discovery.NewDiscoveryClientForConfig(s.cluster.Config)
		Expect(err).NotTo(HaveOccurred())
		return discovery.ServerPreferredNamespacedResources(finder)
	}

	It("until the manager dies, without an effect on other APIs", func() {
		s.until(func() error { _, err := discovered(); return err })
		s.Kill()
		var found []*metav1.APIResourceList
		var err error
		Eventually(func() error {
			found, err = discovered()
			return err
		}).Should(HaveOccurred())
		failed, _ := discovery.GroupDiscoveryFailedErrorGroups(err)
		Expect(failed).To(HaveLen(1))
		Expect(failed).To(HaveKey(deadletters.GroupVersion))
		Expect(found).To(ContainElements(HaveField("GroupVersion", "v1"), HaveField("GroupVersion", "messaging.warren.dev/v1alpha1")))
		Expect(s.cluster.Kubectl("get", "consumerqueues", "--namespace="+s.Namespace)).To(ContainSubstring("orders"))
	})

	It("and hack/undeploy.sh removes the APIService first, so that no API is unavailable and namespaces can be deleted", func() {
		DeferCleanup(s.cluster.restoreCRDs)
		s.cluster.RunController("namespace-controller")
		doomed := s.Namespace + "-doomed"
		s.cluster.Kubectl("create", "namespace", doomed)
		s.cluster.Kubectl("delete", "namespace", doomed, "--wait=false")
		Eventually(func() string { return s.cluster.Kubectl("get", "namespace", doomed, "--output=yaml") }).
			Should(ContainSubstring("NamespaceDeletionDiscoveryFailure"))
		calls := filepath.Join(GinkgoT().TempDir(), "calls")
		Expect(s.cluster.undeploy(calls)).To(Succeed())
		content, err := os.ReadFile(calls)
		Expect(err).NotTo(HaveOccurred())
		var deletions []string
		for line := range strings.Lines(string(content)) {
			if strings.HasPrefix(line, "delete ") {
				deletions = append(deletions, strings.TrimSpace(line))
			}
		}
		Expect(deletions).To(HaveExactElements(
			HaveSuffix("apiservice/v1alpha1.deadletters.messaging.warren.dev"), HaveSuffix("deployment/warren-controller-manager"),
			HaveSuffix("-k config/default"), HaveSuffix("rolebinding/warren-front-proxy-rolebinding"),
			HaveSuffix("-k config/contract"), HaveSuffix("clusterrolebinding/warren-metrics-scraper")))
		_, err = s.cluster.TryKubectl("get", "apiservice", "v1alpha1.deadletters.messaging.warren.dev")
		Expect(err).To(MatchError(ContainSubstring("NotFound")))
		Eventually(func() error { _, err := discovered(); return err }).Should(Succeed())
		Eventually(func() error { _, err := s.cluster.TryKubectl("get", "namespace", doomed); return err }).
			WithTimeout(deadline.For(2 * time.Minute)).Should(MatchError(ContainSubstring("NotFound")))
	})
})

// deadLetterRoles are the roles for dead letters.
var deadLetterRoles = []string{"viewer", "editor", "admin"}

// endpoint is an address of the dead-letter API, with credentials.
type endpoint struct {
	address     string
	token       string           // none if empty
	certificate *tls.Certificate // none if nil
	header      http.Header
}

// ask sends a GET request and returns the response.
func (d endpoint) ask(path string) (code int, body string) {
	GinkgoHelper()
	settings := &tls.Config{InsecureSkipVerify: true} // the test is about the client's identity
	if d.certificate != nil {
		settings.Certificates = []tls.Certificate{*d.certificate}
	}
	transport := &http.Transport{TLSClientConfig: settings}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx(), http.MethodGet, d.address+path, http.NoBody)
	Expect(err).NotTo(HaveOccurred())
	maps.Copy(request.Header, d.header)
	if d.token != "" {
		request.Header.Set("Authorization", "Bearer "+d.token)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	return response.StatusCode, string(content)
}

// withAggregation makes an API server forward requests with a client certificate of an authority.
func withAggregation(proxies *authority.Authority) func(*envtest.Environment) {
	GinkgoHelper()
	folder := issue(proxies, "front-proxy")
	Expect(proxies.Write(folder, "ca")).To(Succeed())
	return func(environment *envtest.Environment) {
		arguments := environment.ControlPlane.GetAPIServer().Configure()
		for name, value := range map[string]string{
			"requestheader-client-ca-file":       filepath.Join(folder, "ca.crt"),
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

// pointAPIServiceTo makes the APIService use a local address, because there is neither a pod network nor cert-manager.
func (c *cluster) pointAPIServiceTo(address string, serving *authority.Authority) {
	GinkgoHelper()
	host, port, err := net.SplitHostPort(address)
	Expect(err).NotTo(HaveOccurred())
	number, err := strconv.ParseInt(port, 10, 64)
	Expect(err).NotTo(HaveOccurred())

	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "warren-dead-letters"}}
	Expect(c.Delete(ctx(), service)).To(Succeed())
	service = &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "warren-dead-letters"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: host},
	}
	Expect(c.Create(ctx(), service)).To(Succeed())

	text, err := os.ReadFile(filepath.Join(config, "apiservice", "apiservice.yaml"))
	Expect(err).NotTo(HaveOccurred())
	api := &unstructured.Unstructured{}
	Expect(yaml.Unmarshal(text, &api.Object)).To(Succeed())
	Expect(unstructured.SetNestedField(api.Object, number, "spec", "service", "port")).To(Succeed())
	Expect(unstructured.SetNestedField(api.Object, base64.StdEncoding.EncodeToString(serving.Certificate), "spec", "caBundle")).To(Succeed())
	Expect(c.Create(ctx(), api)).To(Succeed())
	Eventually(func(g Gomega) {
		g.Expect(c.Get(ctx(), client.ObjectKeyFromObject(api), api)).To(Succeed())
		conditions, _, _ := unstructured.NestedSlice(api.Object, "status", "conditions")
		g.Expect(conditions).To(ContainElement(SatisfyAll(HaveKeyWithValue("type", "Available"), HaveKeyWithValue("status", "True"))))
	}).Should(Succeed())
}

func newAuthority() *authority.Authority {
	GinkgoHelper()
	made, err := authority.New("an authority")
	Expect(err).NotTo(HaveOccurred())
	return made
}

// issue creates a directory with tls.crt and tls.key for a name, of a client or a server.
func issue(by *authority.Authority, name string) string {
	GinkgoHelper()
	pair, err := by.Issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	})
	Expect(err).NotTo(HaveOccurred())
	folder := GinkgoT().TempDir()
	Expect(pair.Write(folder, "tls")).To(Succeed())
	return folder
}
