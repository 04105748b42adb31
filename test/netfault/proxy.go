package netfault

import (
	"io"
	"net"
	"net/url"
	"sync"
)

// Proxy forwards TCP connections to a server, and fails on request. It counts bytes over all connections, and delivers retained
// bytes later. No existing proxy does both.
type Proxy struct {
	// URI is the URI of the target with the address of the proxy.
	URI, Address string

	tb       TB
	mu       sync.Mutex
	target   string
	refusing bool
	holding  chan struct{} // nil, or closed by Release
	held     int           // bytes and connections that arrived while holding
	left     int           // bytes to the server until the planned cut; negative if none is planned
	accepted int           // connections
	open     map[net.Conn]bool
	stalled  map[net.Conn]bool // both sides of stalled connections
}

// NewProxy starts a proxy that stops when the test ends.
func NewProxy(tb TB, target string) *Proxy {
	tb.Helper()
	return NewProxyAt(tb, "127.0.0.1:0", target)
}

// NewProxyAt is NewProxy at an address that other machines can reach.
func NewProxyAt(tb TB, address, target string) *Proxy {
	tb.Helper()
	p := &Proxy{tb: tb, left: -1, open: map[net.Conn]bool{}, stalled: map[net.Conn]bool{}}
	uri := p.parse(target)
	p.target = uri.Host
	p.Address = listenAt(tb, address, func(connection net.Conn) { go p.serve(connection) })
	p.URI = uri.Scheme + "://" + p.Address
	tb.Cleanup(func() {
		p.Refuse()
		p.Release()
	})
	return p
}

func (p *Proxy) parse(target string) *url.URL {
	p.tb.Helper()
	uri, err := url.Parse(target)
	if err != nil {
		p.tb.Fatal(err)
	}
	return uri
}

func (p *Proxy) serve(client net.Conn) {
	p.count(1) // the connection itself
	p.await()  // before dialling, because a broker closes connections without a handshake
	p.mu.Lock()
	p.accepted++
	target := p.target
	p.mu.Unlock()
	server, err := net.Dial("tcp", target)
	if err != nil {
		_ = client.Close()
		return
	}
	p.mu.Lock()
	if p.refusing || p.target != target {
		p.mu.Unlock()
		_, _ = client.Close(), server.Close()
		return
	}
	p.open[client], p.open[server] = true, true
	p.mu.Unlock()
	go p.answers(client, server)
	p.requests(server, client)
}

// answers forwards bytes from the server.
func (p *Proxy) answers(client, server net.Conn) {
	defer func() {
		if p.isStalled(client) { // the client does not learn that the server has closed the connection
			p.end(server)
			return
		}
		p.end(client, server)
	}()
	_, _ = io.Copy(valve{p, client}, server)
	p.await() // a silent server does not close connections either
}

// valve writes to the client until its connection stalls.
type valve struct {
	proxy  *Proxy
	client net.Conn
}

func (v valve) Write(content []byte) (int, error) {
	if v.proxy.isStalled(v.client) {
		return len(content), nil
	}
	return v.client.Write(content)
}

// requests forwards bytes to the server. It keeps reading while the proxy holds, to count the bytes.
func (p *Proxy) requests(server, client net.Conn) {
	defer p.end(client, server)
	chunks := make(chan []byte, 1024)
	go func() {
		defer close(chunks)
		for {
			buffer := make([]byte, 1<<12)
			n, err := client.Read(buffer)
			if err != nil {
				return
			}
			p.count(n)
			chunks <- buffer[:n]
		}
	}()
	for chunk := range chunks {
		if p.isStalled(client) {
			continue
		}
		content, goesOn := p.admit(chunk)
		if _, err := server.Write(content); err != nil || !goesOn {
			break
		}
	}
	p.end(client, server)
	for range chunks { // until the reader has ended, too
	}
}

// count counts retained bytes.
func (p *Proxy) count(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holding != nil {
		p.held += n
	}
}

// await waits for Release while the proxy holds.
func (p *Proxy) await() {
	p.mu.Lock()
	holding := p.holding
	p.mu.Unlock()
	if holding != nil {
		<-holding
	}
}

// admit waits while the proxy holds. It returns the bytes to forward, and whether the connection stays open.
func (p *Proxy) admit(content []byte) ([]byte, bool) {
	p.await()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left < 0 || p.left > len(content) {
		p.left = max(p.left-len(content), -1)
		return content, true
	}
	content, p.left = content[:p.left], -1
	return content, false
}

func (p *Proxy) end(connections ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, connection := range connections {
		p.close(connection)
	}
}

// close closes a connection. The caller must hold the lock.
func (p *Proxy) close(connection net.Conn) {
	_ = connection.Close()
	delete(p.open, connection)
	delete(p.stalled, connection)
}

func (p *Proxy) isStalled(connection net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stalled[connection]
}

// Stall drops all further bytes in both directions on the open connections, like a router that lost its state. New connections
// work.
func (p *Proxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for connection := range p.open {
		p.stalled[connection] = true
	}
}

// Accepted returns the number of client connections, including refused ones.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Cut closes all open connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for connection := range p.open {
		p.close(connection)
	}
}

// CutAfter closes the connection that sends the nth byte to the server, counted from now.
func (p *Proxy) CutAfter(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = n
}

// HasCut reports whether the planned cut of CutAfter has happened.
func (p *Proxy) HasCut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left < 0
}

// Refuse closes all connections, and each new one immediately, until Accept is called.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	p.refusing = true
	p.mu.Unlock()
	p.Cut()
}

// Accept ends Refuse.
func (p *Proxy) Accept() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = false
}

// Hold retains the bytes to the server until Release. New connections are accepted but get no response.
func (p *Proxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holding == nil {
		p.holding, p.held = make(chan struct{}), 0
	}
}

// Release ends Hold and forwards the retained bytes.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holding != nil {
		close(p.holding)
		p.holding = nil
	}
}

// Held returns how many bytes and new connections arrived since Hold.
func (p *Proxy) Held() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

// LeadTo changes the target of new connections and closes the open ones.
func (p *Proxy) LeadTo(target string) {
	p.tb.Helper()
	uri := p.parse(target)
	p.mu.Lock()
	p.target = uri.Host
	p.mu.Unlock()
	p.Cut()
}
