package management

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
)

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(request *http.Request) (*http.Response, error) { return t(request) }

// A process is paused while one policy is being written and another one waits. When it resumes, another process leads.
func TestAWriteThatWaitedIsNotSentWithoutTheLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sent, paused, lost := 0, make(chan struct{}), atomic.Bool{}
		client := NewClient(Options{
			URI: &url.URL{Scheme: "http", Host: "broker"}, Timeout: time.Minute, Connections: 2,
			HoldsLease: func() bool { return !lost.Load() },
			Wrap: func(http.RoundTripper) http.RoundTripper {
				return transport(func(*http.Request) (*http.Response, error) {
					sent++
					<-paused
					return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, nil
				})
			},
		})
		results := make(chan error, 2)
		for range 2 {
			go func() { results <- client.PutPolicy(t.Context(), "warren-fence", "orders", 0, nil) }()
			synctest.Wait()
		}
		lost.Store(true)
		close(paused)
		if err := <-results; err != nil {
			t.Error(err)
		}
		if err := <-results; !errors.Is(err, brokererr.ErrNotLeader) {
			t.Error(err)
		}
		if sent != 1 {
			t.Errorf("%d policies were sent, want 1", sent)
		}
	})
}

// The broker closes a connection without an answer. A read is sent again, and a write is not: another process may lead by now.
func TestOnlyReadsAreRepeated(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]int32{http.MethodGet: 2, http.MethodPut: 1, http.MethodDelete: 1} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
				if request.URL.Path == "/api/whoami" {
					return // the client keeps the connection
				}
				if requests.Add(1) == 1 {
					panic(http.ErrAbortHandler)
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(`{}`))
			}))
			t.Cleanup(server.Close)
			uri, err := url.Parse(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			client := NewClient(Options{URI: uri, TLS: &tls.Config{MinVersion: tls.VersionTLS12}, Timeout: time.Minute, Connections: 1})
			t.Cleanup(client.Close)
			_, _ = client.Get(t.Context(), "/whoami", "", &struct{}{})
			_ = client.do(t.Context(), method, "/policies", "", nil, func(*http.Response) error { return nil })
			if got := requests.Load(); got != want {
				t.Errorf("%d requests, want %d", got, want)
			}
		})
	}
}

// An answer has no more headers than its limit, and comes over HTTP/1, because HTTP/2 takes megabytes of buffers.
func TestAnswersOfAnHTTP2Server(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.URL.Path == "/api/large" {
			w.Header().Set("X-Large", strings.Repeat("x", 2*largestHeader))
		}
		_, _ = fmt.Fprintf(w, `{"major": %d}`, request.ProtoMajor)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	uri, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(server.Certificate())
	client := NewClient(Options{
		URI: uri, TLS: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}, Timeout: time.Minute, Connections: 1,
	})
	t.Cleanup(client.Close)
	var answer struct{ Major int }
	if _, err := client.Get(t.Context(), "/small", "", &answer); err != nil || answer.Major != 1 {
		t.Errorf("HTTP/%d: %v", answer.Major, err)
	}
	if _, err := client.Get(t.Context(), "/large", "", &answer); !errors.Is(err, brokererr.ErrUnreachable) {
		t.Errorf("large headers: %v", err)
	}
}

// The arguments of a queue are retained, so they must not take as much memory as an answer may.
func TestQueuesWithLargeArguments(t *testing.T) {
	t.Parallel()
	queue := `{"name": "orders", "arguments": {"text": "` + strings.Repeat("x", largestArguments) + `"}}`
	client := NewClient(Options{
		URI: &url.URL{Scheme: "http", Host: "broker"}, Timeout: time.Minute, Connections: 1, Limits: NewLimits(0),
		Wrap: func(http.RoundTripper) http.RoundTripper {
			return transport(func(request *http.Request) (*http.Response, error) {
				answer := queue
				if request.URL.Query().Has("page") {
					answer = `{"page_count": 1, "items": [` + queue + `]}`
				}
				return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(answer))}, nil
			})
		},
	})
	_, err := client.QueueInfo(t.Context(), "orders", WithoutStatistics)
	_, several := client.QueueInfos(t.Context(), []string{"orders"}, "^orders$")
	for name, err := range map[string]error{"one queue": err, "several": several} {
		if !errors.Is(err, brokererr.ErrResponseTooLarge) || !strings.Contains(err.Error(), "arguments") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
