package faults

import (
	"io"
	"net"
	"net/url"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// proxy passes TCP connections on to a port of a broker, and can be told to fail. It counts bytes over all connections
// and keeps what it holds back, which no ready-made proxy does.
type proxy struct {
	scheme, address string

	mu       sync.Mutex
	target   string
	refusing bool
	holding  chan struct{} // nil, or closed by release
	held     int           // bytes that came while holding
	left     int           // bytes towards the broker until the cut; none is planned below zero
	open     map[net.Conn]bool
}

func newProxy(target string) *proxy {
	GinkgoHelper()
	uri, err := url.Parse(target)
	Expect(err).NotTo(HaveOccurred())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	p := &proxy{scheme: uri.Scheme, address: listener.Addr().String(), target: uri.Host, left: -1, open: map[net.Conn]bool{}}
	go p.accepting(listener)
	DeferCleanup(func() {
		Expect(listener.Close()).To(Succeed())
		p.refuse()
		p.release()
	})
	return p
}

func (p *proxy) uri() string { return p.scheme + "://" + p.address }

func (p *proxy) accepting(listener net.Listener) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		go p.serve(connection)
	}
}

func (p *proxy) serve(operator net.Conn) {
	p.await() // for a broker ends connections that are silent for long
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	broker, err := net.Dial("tcp", target)
	if err != nil {
		_ = operator.Close()
		return
	}
	p.mu.Lock()
	if p.refusing || p.target != target {
		p.mu.Unlock()
		_, _ = operator.Close(), broker.Close()
		return
	}
	p.open[operator], p.open[broker] = true, true
	p.mu.Unlock()
	go p.answers(operator, broker)
	p.requests(broker, operator)
}

// answers passes on what comes from the broker.
func (p *proxy) answers(operator, broker net.Conn) {
	defer p.end(operator, broker)
	_, _ = io.Copy(operator, broker)
	p.await() // and so that it ends nothing while it is to be silent
}

// requests passes on what goes to the broker. It goes on reading while the proxy holds, so as to know what there is.
func (p *proxy) requests(broker, operator net.Conn) {
	defer p.end(operator, broker)
	chunks := make(chan []byte, 1024)
	go func() {
		defer close(chunks)
		for {
			buffer := make([]byte, 1<<12)
			n, err := operator.Read(buffer)
			if err != nil {
				return
			}
			p.count(n)
			chunks <- buffer[:n]
		}
	}()
	for chunk := range chunks {
		content, goesOn := p.admit(chunk)
		if _, err := broker.Write(content); err != nil || !goesOn {
			break
		}
	}
	p.end(operator, broker)
	for range chunks { // until the reader has ended too
	}
}

// count counts bytes that are held back.
func (p *proxy) count(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holding != nil {
		p.held += n
	}
}

// await waits for release if the proxy holds.
func (p *proxy) await() {
	p.mu.Lock()
	holding := p.holding
	p.mu.Unlock()
	if holding != nil {
		<-holding
	}
}

// admit waits while the proxy holds. It says how much may pass, and whether anything may after it.
func (p *proxy) admit(content []byte) ([]byte, bool) {
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

func (p *proxy) end(connections ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, connection := range connections {
		p.close(connection)
	}
}

// close ends a connection; the lock is held.
func (p *proxy) close(connection net.Conn) {
	_ = connection.Close()
	delete(p.open, connection)
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for connection := range p.open {
		p.close(connection)
	}
}

// cutAfter cuts the connection on which the n-th byte from now on goes towards the broker.
func (p *proxy) cutAfter(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = n
}

// hasCut says whether the cut has happened that cutAfter planned.
func (p *proxy) hasCut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left < 0
}

// refuse cuts every connection, and each new one at once; accept ends that.
func (p *proxy) refuse() {
	p.mu.Lock()
	p.refusing = true
	p.mu.Unlock()
	p.cut()
}

func (p *proxy) accept() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = false
}

// hold keeps back what goes towards the broker until release; new connections are accepted, and nothing answers them.
func (p *proxy) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holding == nil {
		p.holding, p.held = make(chan struct{}), 0
	}
}

func (p *proxy) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holding != nil {
		close(p.holding)
		p.holding = nil
	}
}

// holds is how many bytes came since hold.
func (p *proxy) holds() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

// leadTo has every connection from now on go elsewhere, and cuts those that there are.
func (p *proxy) leadTo(target string) {
	GinkgoHelper()
	uri, err := url.Parse(target)
	Expect(err).NotTo(HaveOccurred())
	p.mu.Lock()
	p.target = uri.Host
	p.mu.Unlock()
	p.cut()
}
