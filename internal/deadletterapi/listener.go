package deadletterapi

import (
	"net"
	"sync"
)

// fairListener limits connections by the address of the client. It immediately closes a connection for which no slot is free. If such
// connections waited, one client could make all other clients wait.
type fairListener struct {
	net.Listener
	slots *shares
}

func (l fairListener) Accept() (net.Conn, error) {
	for {
		connection, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		host, _, _ := net.SplitHostPort(connection.RemoteAddr().String()) // an address of TCP always has a port
		if end, _ := l.slots.take(host); end != nil {
			return slottedConn{connection, sync.OnceFunc(end)}, nil
		}
		_ = connection.Close()
	}
}

// slottedConn frees its slot when it is closed.
type slottedConn struct {
	net.Conn
	end func()
}

func (c slottedConn) Close() error {
	defer c.end()
	return c.Conn.Close()
}
