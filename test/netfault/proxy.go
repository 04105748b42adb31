package netfault

import (
	"io"
	"net"
	"net/url"
	"sync"
)

// Proxy passes TCP connections on to a server, and can be told to fail. It counts bytes over all connections, and keeps
// the bytes that it holds back, which no ready-made proxy does.
type Proxy struct {
	// URI is the target's, with the proxy's Address in place of the target's.
	URI, Address string

	tb       TB
	mu       sync.Mutex
	target   string
	refusing bool
	holding  chan struct{} // nil, or closed by Release
	held     int           // bytes that came while holding, and connections
	left     int           // bytes towards the server until the cut; none is planned below zero
	accepted int           // connections
	open     map[net.Conn]bool
	stalled  map[net.Conn]bool // the ends of connections on which nothing passes
}

// NewProxy starts a proxy that ends with the test.
func NewProxy(tb TB, target string) *Proxy {
	tb.Helper()
	return NewProxyAt(tb, "127.0.0.1:0", target)
}

// NewProxyAt is NewProxy at an address of this machine that others reach, too.
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
	p.count(1) // the connection itself, of which nothing is read yet
	p.await()  // before the server is dialled: a broker ends connections that are silent for long
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

// answers passes on what comes from the server.
func (p *Proxy) answers(client, server net.Conn) {
	defer func() {
		if p.isStalled(client) { // the client does not learn that the server has closed the connection
			p.end(server)
			return
		}
		p.end(client, server)
	}()
	_, _ = io.Copy(valve{p, client}, server)
	p.await() // a silent server does not end connections either
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

// requests passes on what goes to the server. It goes on reading while the proxy holds, so as to know what there is.
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
	for range chunks { // until the reader has ended too
	}
}

// count counts bytes that are held back.
func (p *Proxy) count(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holding != nil {
		p.held += n
	}
}

// await waits for Release if the proxy holds.
func (p *Proxy) await() {
	p.mu.Lock()
	holding := p.holding
	p.mu.Unlock()
	if holding != nil {
		<-holding
	}
}

// admit waits while the proxy holds. It says how much may pass, and whether anything may after it.
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

// close ends a connection; the lock is held.
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

// Stall drops everything from now on that either side sends on the connections that are open, as a router does that has
// forgotten them. New connections work.
func (p *Proxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for connection := range p.open {
		p.stalled[connection] = true
	}
}

// Accepted counts the connections of clients, those included that were refused.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Cut closes every connection that is open.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for connection := range p.open {
		p.close(connection)
	}
}

// CutAfter cuts the connection on which the n-th byte from now on goes towards the server.
func (p *Proxy) CutAfter(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = n
}

// HasCut says whether the cut has happened that CutAfter planned.
func (p *Proxy) HasCut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left < 0
}

// Refuse cuts every connection, and each new one at once; Accept ends that.
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

// Hold keeps back what goes towards the server until Release; new connections are accepted, and nothing answers them.
func (p *Proxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holding == nil {
		p.holding, p.held = make(chan struct{}), 0
	}
}

// Release ends Hold, and passes on what was held back.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holding != nil {
		close(p.holding)
		p.holding = nil
	}
}

// Held is how many bytes and new connections came since Hold.
func (p *Proxy) Held() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

// LeadTo has every connection from now on go elsewhere, and cuts those that there are.
func (p *Proxy) LeadTo(target string) {
	p.tb.Helper()
	uri := p.parse(target)
	p.mu.Lock()
	p.target = uri.Host
	p.mu.Unlock()
	p.Cut()
}
