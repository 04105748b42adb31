package netfault

import (
	"cmp"
	"crypto/tls"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"
)

// HTTPProxy forwards requests to a server and records them. It can refuse requests and change responses.
type HTTPProxy struct {
	URI string
	// CA is the certificate of a proxy that serves TLS, in PEM.
	CA []byte

	mu       sync.Mutex
	sockets  int
	refusing bool
	before   func(*http.Request)
	change   func(*http.Response) error
	seen     []Request
}

// Request is a recorded request.
type Request struct {
	Path   string // escaped, without the query
	Status int    // zero if it was refused
	At     time.Time
}

// HTTPOptions configure an HTTPProxy.
type HTTPOptions struct {
	// Prefix is removed from each path, such as /rabbit. Other paths get status 404.
	Prefix string
	// TLS makes the proxy serve HTTPS. Without certificates the proxy creates one; see CA.
	TLS *tls.Config
	// Transport sends the requests to the server. By default each proxy has its own.
	Transport http.RoundTripper
}

// NewHTTPProxy starts a proxy that stops when the test ends.
func NewHTTPProxy(tb TB, target string, options HTTPOptions) *HTTPProxy {
	tb.Helper()
	uri, err := url.Parse(target)
	if err != nil {
		tb.Fatal(err)
	}
	p := &HTTPProxy{}
	// http.DefaultTransport can fail here: when another test closes its httptest.Server, that closes connections of this transport.
	own := &http.Transport{}
	tb.Cleanup(own.CloseIdleConnections)
	reverse := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(uri)
			r.Out.URL.RawPath = strings.TrimPrefix(r.In.URL.EscapedPath(), options.Prefix)
			r.Out.URL.Path, _ = url.PathUnescape(r.Out.URL.RawPath)
			r.Out.Header.Del("Accept-Encoding") // so that responses that are read or replaced here are not compressed
		},
		ModifyResponse: p.pass,
		Transport:      cmp.Or(options.Transport, http.RoundTripper(own)),
		ErrorHandler:   func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, known := strings.CutPrefix(r.URL.EscapedPath(), options.Prefix)
		if !known || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") {
			http.NotFound(w, r)
			return
		}
		p.admit(r)
		reverse.ServeHTTP(w, r)
	}))
	server.Config.ConnState = p.countSockets
	p.start(server, options)
	tb.Cleanup(server.Close)
	return p
}

func (p *HTTPProxy) start(server *httptest.Server, options HTTPOptions) {
	if server.TLS = options.TLS; server.TLS == nil {
		server.Start()
	} else {
		server.StartTLS()
		p.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	}
	p.URI = server.URL + options.Prefix
}

func (p *HTTPProxy) countSockets(_ net.Conn, state http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if state == http.StateNew {
		p.sockets++
	}
}

// admit waits until a request may be forwarded, and closes the connection of a refused one.
func (p *HTTPProxy) admit(request *http.Request) {
	p.mu.Lock()
	before := p.before
	p.mu.Unlock()
	if before != nil {
		before(request)
	}
	p.mu.Lock()
	refusing := p.refusing
	p.mu.Unlock()
	if refusing {
		p.remember(request.URL, 0)
		panic(http.ErrAbortHandler)
	}
}

func (p *HTTPProxy) pass(response *http.Response) error {
	p.mu.Lock()
	change := p.change
	p.mu.Unlock()
	if change != nil {
		if err := change(response); err != nil {
			return err
		}
	}
	p.remember(response.Request.URL, response.StatusCode)
	return nil
}

func (p *HTTPProxy) remember(uri *url.URL, status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, Request{uri.EscapedPath(), status, time.Now()})
}

// Requests returns the requests since the last call.
func (p *HTTPProxy) Requests() []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := p.seen
	p.seen = nil
	return seen
}

// Sockets returns how many TCP connections were opened.
func (p *HTTPProxy) Sockets() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sockets
}

// Refuse closes the connection of each request without a response, until Accept is called.
func (p *HTTPProxy) Refuse() { p.setRefusing(true) }

// Accept ends Refuse.
func (p *HTTPProxy) Accept() { p.setRefusing(false) }

func (p *HTTPProxy) setRefusing(refusing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = refusing
}

// Before sets a function to call before each request is forwarded; nil for none.
func (p *HTTPProxy) Before(call func(*http.Request)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before = call
}

// Change sets a function that changes each response; nil for none.
func (p *HTTPProxy) Change(through func(*http.Response) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.change = through
}

// Replace replaces the body of a response.
func Replace(response *http.Response, body string) {
	response.Body = io.NopCloser(strings.NewReader(body))
	response.ContentLength = int64(len(body))
	response.Header.Del("Content-Length")
}
