package netfault

import "net"

// TB is the part of testing.TB that this package needs. Programs use program.Program.
type TB interface {
	Helper()
	Fatal(text ...any)
	Cleanup(function func())
}

// Listen accepts TCP connections until the test ends, and returns its address.
func Listen(tb TB, accept func(net.Conn)) string {
	tb.Helper()
	return listenAt(tb, "127.0.0.1:0", accept)
}

func listenAt(tb TB, address string, accept func(net.Conn)) string {
	tb.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = listener.Close() })
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

// Mute accepts connections and never responds. It returns its address.
func Mute(tb TB) string {
	tb.Helper()
	return Listen(tb, func(connection net.Conn) { tb.Cleanup(func() { _ = connection.Close() }) })
}
