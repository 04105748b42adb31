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

// gate stands between a manager and the API server. It changes nothing of what passes, and remembers it.
type gate struct {
	*netfault.HTTPProxy

	mu      sync.Mutex
	crossed []*exchange
}

// exchange is a request and its answer.
type exchange struct {
	method string
	url    *url.URL
	answer locked
}

func openGate(config *rest.Config) *gate {
	GinkgoHelper()
	tlsConfig, err := rest.TLSConfigFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: config.CAData}})
	Expect(err).NotTo(HaveOccurred())
	g := &gate{HTTPProxy: netfault.NewHTTPProxy(GinkgoTB(), config.Host, netfault.HTTPOptions{
		TLS: &tls.Config{MinVersion: tls.VersionTLS12},
		// Answers that are to be read here are not compressed.
		Transport: &http.Transport{TLSClientConfig: tlsConfig, MaxIdleConnsPerHost: 100, DisableCompression: true},
	})}
	g.Change(g.remember)
	return g
}

func (g *gate) remember(response *http.Response) error {
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

// all lists what has crossed so far.
func (g *gate) all() []*exchange {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]*exchange(nil), g.crossed...)
}

// locked is a buffer that is written and read at the same time.
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
