package hostile

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Management is a fake management API with one empty vhost.
type Management struct {
	URI string
	// Tags are the tags of the user; "administrator" if empty.
	Tags string
	// Version is the version of RabbitMQ. ClusterName and ClusterID belong to the cluster.
	Version, ClusterName, ClusterID string
	// Misbehave returns true if it has responded to a request, and false for a normal response. It may be nil.
	Misbehave func(http.ResponseWriter, *http.Request) bool
}

// NewManagement starts a server that stops when the test ends.
func NewManagement(tb testing.TB, misbehave func(http.ResponseWriter, *http.Request) bool) *Management {
	tb.Helper()
	m := &Management{
		Tags: "administrator", Version: "4.3.6", ClusterName: "hostile@here", ClusterID: "rabbitmq-cluster-id-hostile",
		Misbehave: misbehave,
	}
	server := httptest.NewServer(m)
	tb.Cleanup(func() {
		server.CloseClientConnections() // some responses never end
		server.Close()
	})
	m.URI = server.URL
	return m
}

// ServeHTTP responds to a request.
func (m *Management) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if m.Misbehave != nil && m.Misbehave(w, r) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	path := strings.TrimPrefix(r.URL.EscapedPath(), "/api/")
	switch endpoint, _, _ := strings.Cut(path, "/"); endpoint {
	case "whoami":
		_, _ = fmt.Fprintf(w, `{"name": "guest", "tags": [%q]}`, m.Tags)
	case "overview":
		_, _ = fmt.Fprintf(w, `{"rabbitmq_version": %q, "cluster_name": %q}`, m.Version, m.ClusterName)
	case "nodes":
		_, _ = fmt.Fprintf(w, `[{"rabbitmq_version": %q}]`, m.Version)
	case "global-parameters":
		_, _ = fmt.Fprintf(w, `[{"name": "internal_cluster_id", "value": %q}]`, m.ClusterID)
	case "definitions":
		_, _ = io.WriteString(w, `{"queues": [], "exchanges": [], "bindings": [], "policies": [], "parameters": []}`)
	case "exchanges", "queues":
		if r.URL.Query().Has("page") {
			_, _ = io.WriteString(w, `{"items": [], "page_count": 1, "filtered_count": 0}`)
			return
		}
		_, _ = io.WriteString(w, `[]`)
	default:
		_, _ = io.WriteString(w, `[]`)
	}
}

// At misbehaves on one endpoint, such as whoami.
func At(endpoint string, answer http.HandlerFunc) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.EscapedPath(), "/api/"+endpoint) {
			return false
		}
		answer(w, r)
		return true
	}
}

// AtQuery misbehaves on one endpoint for requests whose query contains a text.
func AtQuery(endpoint, query string, answer http.HandlerFunc) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		return strings.Contains(r.URL.RawQuery, query) && At(endpoint, answer)(w, r)
	}
}

// Either misbehaves in one of two ways.
func Either(first, second func(http.ResponseWriter, *http.Request) bool) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool { return first(w, r) || second(w, r) }
}

// Text responds with a text.
func Text(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

// Endless responds with a beginning and then repeats a text until the client disconnects.
func Endless(beginning, again string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { repeatEndlessly(r, w, beginning, again) }
}

// Huge responds with a valid list of about size bytes with different items.
func Huge(size int, beginning string, item func(i int) string, end string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		text := bufio.NewWriter(w)
		written, err := text.WriteString(beginning)
		for i := 0; written < size && err == nil && r.Context().Err() == nil; i++ {
			more := 0
			if i > 0 {
				_ = text.WriteByte(',')
			}
			more, err = text.WriteString(item(i))
			written += more + 1
		}
		_, _ = text.WriteString(end)
		_ = text.Flush()
	}
}

// Bomb is Endless with compression.
func Bomb(beginning, again string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		zipped := gzip.NewWriter(w)
		repeatEndlessly(r, zipped, beginning, again)
	}
}

func repeatEndlessly(r *http.Request, w io.Writer, beginning, again string) {
	block := strings.Repeat(again, 1+64<<10/len(again))
	_, err := io.WriteString(w, beginning)
	for err == nil && r.Context().Err() == nil {
		_, err = io.WriteString(w, block)
	}
}

// Drip responds with a text, one byte at a time.
func Drip(text string, pause time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for i := range text {
			_, _ = io.WriteString(w, text[i:i+1])
			_ = http.NewResponseController(w).Flush()
			if !wait(r, pause) {
				return
			}
		}
	}
}

// DripHeaders also sends the headers one byte at a time.
func DripHeaders(pause time.Duration) http.HandlerFunc {
	return raw(func(r *http.Request, w net.Conn) {
		for _, b := range []byte("HTTP/1.1 200 OK\r\nX-Never: " + strings.Repeat("x", 1000)) {
			if _, err := w.Write([]byte{b}); err != nil || !wait(r, pause) {
				return
			}
		}
	})
}

// EndlessHeaders sends headers until the client disconnects.
func EndlessHeaders() http.HandlerFunc {
	return raw(func(r *http.Request, w net.Conn) {
		repeatEndlessly(r, w, "HTTP/1.1 200 OK\r\n", "X-Again: and again\r\n")
	})
}

// EndlessHints sends informational responses (1xx) without an end.
func EndlessHints() http.HandlerFunc {
	return raw(func(r *http.Request, w net.Conn) {
		repeatEndlessly(r, w, "", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
	})
}

// SwitchingProtocols announces another protocol, and then waits until the client disconnects.
func SwitchingProtocols() http.HandlerFunc {
	return raw(func(_ *http.Request, connection net.Conn) {
		_, _ = io.WriteString(connection, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: none\r\n\r\n")
		_, _ = io.Copy(io.Discard, connection)
	})
}

// Silence never responds.
func Silence(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// Redirect redirects to a URI.
func Redirect(uri string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, uri, http.StatusTemporaryRedirect) }
}

// raw takes over the connection from the server.
func raw(answer func(*http.Request, net.Conn)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		connection, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = connection.Close() }()
		answer(r, connection)
	}
}

// wait waits, or returns false if the client has disconnected.
func wait(r *http.Request, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}
