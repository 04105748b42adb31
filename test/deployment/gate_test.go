package deployment

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
)

// gate stands between a manager and the API server. It changes nothing of what passes, and remembers it.
type gate struct {
	uri string
	ca  []byte

	mu sync.Mutex
	// before is called with each request before it goes on, unless nil.
	before  func(*http.Request)
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
	target, err := url.Parse(config.Host)
	Expect(err).NotTo(HaveOccurred())
	tlsConfig, err := rest.TLSConfigFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: config.CAData}})
	Expect(err).NotTo(HaveOccurred())
	g := &gate{}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Set("Accept-Encoding", "identity") // to be read here
			g.passes(r.In)
		},
		ModifyResponse: g.remember,
		Transport:      &http.Transport{TLSClientConfig: tlsConfig, MaxIdleConnsPerHost: 100},
		FlushInterval:  -1, // watches
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { // the manager hung up
			w.WriteHeader(http.StatusBadGateway)
		},
	}
	server := httptest.NewUnstartedServer(proxy)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	server.StartTLS()
	DeferCleanup(server.Close)
	g.uri, g.ca = server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return g
}

// hook has a function called before each further request goes on.
func (g *gate) hook(before func(*http.Request)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.before = before
}

func (g *gate) passes(request *http.Request) {
	g.mu.Lock()
	before := g.before
	g.mu.Unlock()
	if before != nil {
		before(request)
	}
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
