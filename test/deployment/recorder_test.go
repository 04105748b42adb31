package deployment

import (
	"bytes"
	"crypto/tls"
	"io"
	"net/http"
	"net/url"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/warren-mq/warren/test/netfault"
)

// recorder is a proxy between a manager and the API server that records all requests and responses unchanged.
type recorder struct {
	*netfault.HTTPProxy

	mu      sync.Mutex
	crossed []*exchange
}

// exchange is a request with its response.
type exchange struct {
	method string
	url    *url.URL
	answer locked
}

func newRecorder(config *rest.Config) *recorder {
	GinkgoHelper()
	tlsConfig, err := rest.TLSConfigFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: config.CAData}})
	Expect(err).NotTo(HaveOccurred())
	g := &recorder{HTTPProxy: netfault.NewHTTPProxy(GinkgoTB(), config.Host, netfault.HTTPOptions{
		TLS: &tls.Config{MinVersion: tls.VersionTLS12},
		// Recorded responses must not be compressed.
		Transport: &http.Transport{TLSClientConfig: tlsConfig, MaxIdleConnsPerHost: 100, DisableCompression: true},
	})}
	g.Change(g.remember)
	return g
}

func (g *recorder) remember(response *http.Response) error {
	passed := &exchange{method: response.Request.Method, url: response.Request.URL}
	g.mu.Lock()
	g.crossed = append(g.crossed, passed)
	g.mu.Unlock()
	body := response.Body
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.TeeReader(body, &passed.answer), body}
	return nil
}

// all returns all recorded exchanges.
func (g *recorder) all() []*exchange {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]*exchange(nil), g.crossed...)
}

// locked is a buffer for concurrent reads and writes.
type locked struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (l *locked) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.Write(text)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.String()
}
