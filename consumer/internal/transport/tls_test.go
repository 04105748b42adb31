package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"io"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// certified is a key pair for example.com that is its own CA, and the files with both.
type certified struct {
	tls.Certificate

	certFile, keyFile string
}

func newCertified(t *testing.T) certified {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	server.Close()
	pair, folder := server.TLS.Certificates[0], t.TempDir()
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	c := certified{pair, filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")}
	for path, block := range map[string]*pem.Block{
		c.certFile: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, c.keyFile: {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// serve is a broker that opens a connection, and then sends what it receives from frames.
func serve(conn net.Conn, frames <-chan []byte) {
	receive := func(size int) []byte {
		received := make([]byte, size)
		_, _ = io.ReadFull(conn, received) // fails only with the test
		return received
	}
	receiveFrame := func() { receive(int(binary.BigEndian.Uint32(receive(frameHeadSize)[3:])) + frameEndSize) }
	send := func(frame []byte) { _, _ = conn.Write(frame) }
	receive(len("AMQP0091"))
	send(frame(1, 0, append([]byte{0, 10, 0, 10, 0, 9, 0, 0, 0, 0}, "\x00\x00\x00\x05PLAIN\x00\x00\x00\x05en_US"...)...)) // connection.start
	receiveFrame()                                                                                                        // connection.start-ok
	send(frame(1, 0, 0, 10, 0, 30, 0, 0, 0, 2, 0, 0, 0, 10))                                                              // connection.tune
	receiveFrame()                                                                                                        // connection.tune-ok
	receiveFrame()                                                                                                        // connection.open
	send(frame(1, 0, 0, 10, 0, 41, 0))                                                                                    // connection.open-ok
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	for next := range frames {
		send(next)
	}
}

// With TLS, the frames are inside of TLS records.
func TestAConnectionReportsWhetherTheBrokerBlocksPublishers(t *testing.T) {
	t.Parallel()
	pair := newCertified(t)
	roots := x509.NewCertPool()
	roots.AddCert(pair.Leaf)
	server := &tls.Config{Certificates: []tls.Certificate{pair.Certificate}, MinVersion: tls.VersionTLS12}
	client := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	mutual := server.Clone()
	mutual.ClientAuth = tls.RequireAnyClientCert
	parameters := url.Values{
		"cacertfile": {pair.certFile}, "certfile": {pair.certFile}, "keyfile": {pair.keyFile}, "server_name_indication": {"example.com"},
	}
	for name, test := range map[string]struct {
		uri, address   string
		server, client *tls.Config
	}{
		"without TLS":                      {"amqp://rabbit", "rabbit:5672", nil, nil},
		"TLS by a configuration":           {"amqps://example.com", "example.com:5671", server, client},
		"TLS by the parameters of the URI": {"amqps://rabbit:1234?" + parameters.Encode(), "rabbit:1234", mutual, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				frames := make(chan []byte)
				defer close(frames)
				dialed, got := "", []bool(nil)
				broker := &AMQP{
					URI: func(context.Context) (string, error) { return test.uri, nil },
					TLS: test.client,
					DialTCP: func(_ context.Context, _, address string) (net.Conn, error) {
						dialed = address
						ours, theirs := net.Pipe()
						if test.server != nil {
							theirs = tls.Server(theirs, test.server)
						}
						go serve(theirs, frames)
						return ours, nil
					},
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				connection, err := broker.Dial(ctx, "", func(is bool) { got = append(got, is) })
				if err != nil {
					t.Fatal(err)
				}
				for _, next := range [][]byte{blocked, unblocked, blocked} {
					frames <- next
					synctest.Wait()
				}
				connection.Kill()
				synctest.Wait()
				if diff := cmp.Diff([]bool{true, false, true, false}, got); diff != "" || dialed != test.address {
					t.Errorf("dialed %s, blocked (-want +got):\n%s", dialed, diff)
				}
			})
		})
	}
}
