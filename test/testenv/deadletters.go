package testenv

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/internal/deadletterapi"
	"github.com/warren-mq/warren/test/deadline"
)

// DeadLetterServer is the address and certificate at which a manager serves the dead-letter API.
type DeadLetterServer struct {
	Address string
	// Folder contains tls.crt and tls.key.
	Folder string
}

// NewDeadLetterServer chooses a local address and creates a certificate. Call it once per suite.
func NewDeadLetterServer() DeadLetterServer {
	GinkgoHelper()
	return newDeadLetterServer(FreeAddress())
}

func newDeadLetterServer(address string) DeadLetterServer {
	GinkgoHelper()
	host, _, err := net.SplitHostPort(address)
	Expect(err).NotTo(HaveOccurred())
	crt, key, err := cert.GenerateSelfSignedCertKey(host, []net.IP{net.ParseIP(host)}, nil)
	Expect(err).NotTo(HaveOccurred())
	folder := GinkgoT().TempDir()
	Expect(os.WriteFile(filepath.Join(folder, "tls.crt"), crt, 0o600)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(folder, "tls.key"), key, 0o600)).To(Succeed())
	return DeadLetterServer{Address: address, Folder: folder}
}

// Flags returns the flags for a manager that serves the API at this address.
func (s DeadLetterServer) Flags() []string {
	return []string{"--dead-letters-bind-address=" + s.Address, "--dead-letters-cert-path=" + s.Folder}
}

// Options returns the options for a manager that serves the API at this address.
func (s DeadLetterServer) Options() deadletterapi.Options {
	return deadletterapi.Options{BindAddress: s.Address, CertPath: s.Folder, Redact: deadletterapi.DefaultRedacted}
}

// Client returns an HTTP client that trusts the certificate.
func (s DeadLetterServer) Client() *http.Client {
	GinkgoHelper()
	trusted := x509.NewCertPool()
	crt, err := os.ReadFile(filepath.Join(s.Folder, "tls.crt"))
	Expect(err).NotTo(HaveOccurred())
	Expect(trusted.AppendCertsFromPEM(crt)).To(BeTrue())
	transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trusted}}
	DeferCleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: deadline.For(40 * time.Second)}
}

// DeadLetterClient is a ServiceAccount that sends requests to the dead-letter API of a namespace.
type DeadLetterClient struct {
	server    DeadLetterServer
	client    *http.Client
	namespace string
	// Header is sent with each request.
	Header http.Header
}

// DeadLetterClient creates a ServiceAccount with a ClusterRole of config/rbac in the namespace, or with none if role is empty.
func (w *World) DeadLetterClient(server DeadLetterServer, name, role string) *DeadLetterClient {
	GinkgoHelper()
	w.Account(name, role)
	client := &DeadLetterClient{server: server, client: server.Client(), namespace: w.Namespace, Header: http.Header{}}
	client.Header.Set("Authorization", "Bearer "+w.Token(name, v1alpha1.Audience))
	return client
}

// UseClientCertificate sends the client certificate of a user instead of the token.
func (l *DeadLetterClient) UseClientCertificate(user *rest.Config) {
	GinkgoHelper()
	pair, err := tls.X509KeyPair(user.CertData, user.KeyData)
	Expect(err).NotTo(HaveOccurred())
	l.client = l.server.Client()
	l.client.Transport.(*http.Transport).TLSClientConfig.Certificates = []tls.Certificate{pair}
}

// Account creates a ServiceAccount with a ClusterRole of config/rbac in the namespace, or with none if role is empty.
func (w *World) Account(name, role string) {
	GinkgoHelper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}}
	Expect(w.Kube.Create(ctx(), account)).To(Succeed())
	if role != "" {
		w.bind(account, role)
	}
}

// Token returns a token of a ServiceAccount for an audience, by default the API server. It is valid for a day, because a soak
// takes longer than the usual hour.
func (w *World) Token(name string, audiences ...string) string {
	GinkgoHelper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: audiences, ExpirationSeconds: new(int64(24 * 60 * 60)),
	}}
	Expect(w.Kube.SubResource("token").Create(ctx(), account, request)).To(Succeed())
	return request.Status.Token
}

// bind binds a ClusterRole of config/rbac to an account in its namespace.
func (w *World) bind(account *corev1.ServiceAccount, file string) {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(Checkout, "config", "rbac", file+".yaml"))
	Expect(err).NotTo(HaveOccurred())
	role := &rbacv1.ClusterRole{}
	Expect(yaml.UnmarshalStrict(text, role)).To(Succeed())
	if err := w.Kube.Create(ctx(), role); !apierrors.IsAlreadyExists(err) {
		Expect(err).NotTo(HaveOccurred())
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: account.Namespace, Name: account.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
	}
	Expect(w.Kube.Create(ctx(), binding)).To(Succeed())
}

// Request sends a GET request for a path below the dead-letter queues of the namespace, such as /orders/messages.
func (l *DeadLetterClient) Request(path string) (code int, body []byte) {
	GinkgoHelper()
	response := l.Response(path)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	return response.StatusCode, body
}

// Response is Request for a response whose body the caller reads and closes.
func (l *DeadLetterClient) Response(path string) *http.Response {
	GinkgoHelper()
	response, err := l.TryResponse(path)
	Expect(err).NotTo(HaveOccurred())
	return response
}

// TryResponse is Response for a server that may be unreachable.
func (l *DeadLetterClient) TryResponse(path string) (*http.Response, error) {
	GinkgoHelper()
	url := fmt.Sprintf("https://%s/apis/%s/namespaces/%s/deadletterqueues%s", l.server.Address, v1alpha1.GroupVersion, l.namespace, path)
	request, err := http.NewRequestWithContext(ctx(), http.MethodGet, url, http.NoBody)
	Expect(err).NotTo(HaveOccurred())
	request.Header = l.Header.Clone()
	return l.client.Do(request)
}

// Get repeats Request until it succeeds, and decodes the response.
func (l *DeadLetterClient) Get(path string, into any) {
	GinkgoHelper()
	Expect(json.Unmarshal(l.EventuallyStatus(path, http.StatusOK), into)).To(Succeed())
}

// EventuallyStatus repeats Request until the response has the status code. At first the API server may not know the account's role, the
// operator may not know the queue, or an earlier browse may still return messages.
func (l *DeadLetterClient) EventuallyStatus(path string, code int) []byte {
	GinkgoHelper()
	var body []byte
	Eventually(func(g Gomega) {
		response, err := l.TryResponse(path)
		g.Expect(err).NotTo(HaveOccurred())
		defer func() { _ = response.Body.Close() }()
		body, err = io.ReadAll(response.Body)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(response.StatusCode).To(Equal(code), "%s", body)
	}).Should(Succeed())
	return body
}
