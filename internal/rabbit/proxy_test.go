package rabbit

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// proxy stands before the management API of a broker: it counts, and can hold answers back or replace them.
type proxy struct {
	URI string

	mu      sync.Mutex
	seen    []request
	sockets int
	answers func(*http.Response) error
}

type request struct {
	path   string // without the query
	status int
	at     time.Time
}

// newProxy passes on what comes to its prefix, which must begin with a slash or be empty.
func newProxy(t *testing.T, target, prefix string) *proxy {
	t.Helper()
	return newTLSProxy(t, target, prefix, nil)
}

func newTLSProxy(t *testing.T, target, prefix string, certificates *tls.Config) *proxy {
	t.Helper()
	uri, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{}
	reverse := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(uri)
			r.Out.URL.RawPath = strings.TrimPrefix(r.In.URL.EscapedPath(), prefix)
			r.Out.URL.Path, _ = url.PathUnescape(r.Out.URL.RawPath)
			r.Out.Header.Del("Accept-Encoding") // answers that are replaced are not compressed
		},
		ModifyResponse: p.pass,
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.EscapedPath(), prefix+"/api/") {
			http.NotFound(w, r)
			return
		}
		reverse.ServeHTTP(w, r)
	}))
	if certificates != nil {
		server.TLS = certificates
	}
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if state == http.StateNew {
			p.sockets++
		}
	}
	if server.TLS != nil {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	p.URI = server.URL + prefix
	return p
}

func (p *proxy) pass(response *http.Response) error {
	p.mu.Lock()
	answers := p.answers
	p.mu.Unlock()
	if answers != nil {
		if err := answers(response); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, request{response.Request.URL.EscapedPath(), response.StatusCode, time.Now()})
	return nil
}

// requests are those since the last call.
func (p *proxy) requests() []request {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := p.seen
	p.seen = nil
	return seen
}

func (p *proxy) connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sockets
}

// answer has every answer from now on go through a function; nil ends it.
func (p *proxy) answer(through func(*http.Response) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers = through
}

// replace puts another body in the place of an answer's.
func replace(response *http.Response, body string) {
	response.Body = io.NopCloser(strings.NewReader(body))
	response.ContentLength = int64(len(body))
	response.Header.Del("Content-Length")
}

// relay stands before the AMQP port of a broker; it can cease to pass anything on, without closing a connection.
type relay struct {
	URI string

	mu     sync.Mutex
	frozen chan struct{} // nil, or closed by thaw
	closed bool
	open   []net.Conn
	target string
}

func newRelay(t *testing.T, target string) *relay {
	t.Helper()
	uri, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{target: uri.Host}
	address := listen(t, func(client net.Conn) {
		r.mu.Lock()
		target := r.target
		r.mu.Unlock()
		server, err := net.Dial("tcp", target)
		if err != nil {
			_ = client.Close()
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.closed {
			_, _ = client.Close(), server.Close()
			return
		}
		r.open = append(r.open, client, server)
		go r.copy(client, server)
		go r.copy(server, client)
	})
	t.Cleanup(func() { r.thaw(); r.cut() })
	r.URI = uri.Scheme + "://" + address
	return r
}

func (r *relay) copy(to, from net.Conn) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		r.mu.Lock()
		frozen := r.frozen
		r.mu.Unlock()
		if frozen != nil {
			<-frozen
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (r *relay) freeze() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frozen = make(chan struct{})
}

func (r *relay) thaw() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.frozen != nil {
		close(r.frozen)
		r.frozen = nil
	}
}

// refuse closes each connection as soon as it is opened, or ceases to.
func (r *relay) refuse(closed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = closed
}

// leadTo has new connections lead elsewhere.
func (r *relay) leadTo(t *testing.T, target string) {
	t.Helper()
	uri, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.target = uri.Host
}

// cut closes every connection that is open.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, connection := range r.open {
		_ = connection.Close()
	}
	r.open = nil
}

// listen accepts connections until the test ends, and returns its address.
func listen(t *testing.T, accept func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			accept(connection)
		}
	}()
	return listener.Addr().String()
}

// mute accepts connections and never answers.
func mute(t *testing.T) string {
	t.Helper()
	return listen(t, func(connection net.Conn) { t.Cleanup(func() { _ = connection.Close() }) })
}
