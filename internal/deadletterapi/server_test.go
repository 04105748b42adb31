package deadletterapi

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/test/deadline"
)

func managerPod(t *testing.T, c client.Client) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "warren-system", Name: "manager-0"}, pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

// The pod of a restarted manager that served before does not keep the label.
func TestLabel(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.Labels = "warren-system", "manager-0", map[string]string{ActiveLabel: "true", "app": "warren"}
	c := fake.NewClientBuilder().WithObjects(pod).WithReturnManagedFields().Build()
	l := label{pod: Pod{"warren-system", "manager-0"}, client: c, log: logr.Discard(), cleared: make(chan struct{})}
	if err := l.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	topologytest.Equal(t, "at the start", "", managerPod(t, c).Labels[ActiveLabel])
	l.set(t.Context())
	serving := managerPod(t, c)
	topologytest.Equal(t, "while it serves", "true", serving.Labels[ActiveLabel])
	topologytest.Equal(t, "field manager", "warren", serving.ManagedFields[len(serving.ManagedFields)-1].Manager)
	l.clear(t.Context())
	topologytest.Equal(t, "in the end", "", managerPod(t, c).Labels[ActiveLabel])
}

// Outside of a cluster there is no pod to label.
func TestNoLabelWithoutAPod(t *testing.T) {
	t.Parallel()
	l := label{cleared: make(chan struct{})}
	if err := l.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.set(t.Context())
}

// started returns the address of a server with these slots for connections, and a function that stops it and returns its error.
func started(t *testing.T, connections *shares) (address string, stop func() error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = listener.Addr().String()
	_ = listener.Close()
	certificates, err := certificatesOf("")
	if err != nil {
		t.Fatal(err)
	}
	cleared := make(chan struct{})
	close(cleared)
	s := &server{
		address: address, handler: newWorld(t, `{}`, unchanged).handler, certificates: certificates, label: label{cleared: cleared},
		connections: connections, log: logr.Discard(),
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	return address, func() error {
		cancel()
		return <-ended
	}
}

// insecure is for a generated certificate.
var insecure = &tls.Config{InsecureSkipVerify: true}

func TestServer(t *testing.T) {
	t.Parallel()
	address, stop := started(t, newShares(maxConnections, maxEachAddress))
	transport := &http.Transport{TLSClientConfig: insecure.Clone(), ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	asks := &http.Client{Transport: transport}
	body := ""
	for end := time.Now().Add(deadline.For(10 * time.Second)); body == "" && time.Now().Before(end); {
		response, err := asks.Get("https://" + address + "/healthz")
		if err != nil { // it is not listening yet
			continue
		}
		content, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		body = string(content)
		topologytest.Equal(t, "protocol", "HTTP/1.1", response.Proto)
	}
	topologytest.Equal(t, "answer", "ok", body)
	topologytest.Equal(t, "error", nil, stop())
}

// A share limits the connections of an address. The server closes each further connection until an earlier one has ended.
func TestConnectionsAtATime(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	address, stop := started(t, newShares(8, 2))
	connect := func() (net.Conn, error) { return tls.Dial("tcp", address, insecure) }
	connected := func() (connection net.Conn) {
		g.Eventually(func() (err error) {
			connection, err = connect()
			return err
		}).WithTimeout(deadline.For(10 * time.Second)).Should(Succeed())
		return connection
	}
	first, second := connected(), connected()
	_, err := connect()
	g.Expect(err).To(HaveOccurred())
	_ = first.Close() // an error says that the server has closed an idle connection before
	third := connected()
	_, _ = second.Close(), third.Close()
	g.Expect(stop()).To(Succeed())
}

// The API server identifies itself to an API service by its client certificate, and names the user in headers.
func TestServerAsksForAClientCertificate(t *testing.T) {
	t.Parallel()
	address, stop := started(t, newShares(maxConnections, maxEachAddress))
	asked := atomic.Bool{}
	config := insecure.Clone()
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		asked.Store(true)
		return &tls.Certificate{}, nil // clients other than the API server have none
	}
	g := NewWithT(t)
	g.Eventually(func() error {
		connection, err := tls.Dial("tcp", address, config)
		if err == nil {
			err = connection.Close()
		}
		return err
	}).WithTimeout(deadline.For(10 * time.Second)).Should(Succeed())
	g.Expect(asked.Load()).To(BeTrue())
	g.Expect(stop()).To(Succeed())
}

func TestNoCertificate(t *testing.T) {
	t.Parallel()
	_, err := certificatesOf(t.TempDir())
	if err == nil || !strings.HasPrefix(err.Error(), "load the certificate of --dead-letters-cert-path: ") {
		t.Errorf("got %v", err)
	}
}
