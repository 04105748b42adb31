package rabbit_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
)

// answers returns the same answer to each request. It fails after more requests than one refresh makes, because an answer may announce a
// thousand pages.
type answers struct {
	status int
	body   []byte
	left   int
}

func (a *answers) RoundTrip(request *http.Request) (*http.Response, error) {
	if a.left--; a.left < 0 {
		return nil, io.ErrUnexpectedEOF
	}
	return &http.Response{
		StatusCode: a.status, Status: http.StatusText(a.status), Header: http.Header{},
		Body: io.NopCloser(bytes.NewReader(a.body)), Request: request,
	}, nil
}

// FuzzAnswers checks that no answer of the management API causes a panic. Each error has a reason, and none shows the password, even if the
// answer contains it.
func FuzzAnswers(f *testing.F) {
	const password = "correct-horse/2@100%"
	for _, body := range []string{
		``, `null`, `[]`, `{}`, `<html>` + password, `"` + password + `"`,
		`{"tags":["administrator"],"rabbitmq_version":"4.3.6","cluster_name":"rabbit@a","items":[],"page_count":1,"filtered_count":0}`,
		`{"tags":["management"],"rabbitmq_version":"` + password + `"}`,
		`{"items":[{"name":"amq.topic","type":"topic","durable":true}],"page_count":1,"filtered_count":1}`,
		`{"items":[{"name":"q","arguments":{"x-message-ttl":1e999,"x-delivery-limit":-1,"a":{"b":[null]}}}],"page_count":1000000,"filtered_count":2}`,
		`{"queues":[{"name":"q","arguments":[]}],"exchanges":null,"bindings":[{"source":"","arguments":{}}],"policies":[{}]}`,
		`{"queues":[{"name":"q","durable":"yes"}]}`,
		`{"parameters":[{"component":"operator_policy","name":"p","value":{"definition":{"max-length":1}}}]}`,
		`[{"name":"p","priority":1.5},{"name":"p","priority":1e999},{"name":"p","priority":"` + password + `"}]`,
		`{"parameters":[{"component":"operator_policy","value":"` + password + `"}]}`, `{"parameters":[{"component":"operator_policy"}]}`,
		`{"error":"not_authorised","reason":"Not monitor user"}`, `{"error":"bad_request","reason":"vhost_not_found"}`,
		`{"error":"x","reason":"` + password + `"}`, `{"reason":"amqp://bob:` + url.QueryEscape(password) + `@mq"}`,
		`[{"applications":[{"name":"rabbit","version":"4.0.5"}]},{"rabbitmq_version":"4.3.6"}]`,
	} {
		for _, status := range []int{200, 304, 401, 404, 503} {
			f.Add(status, []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		if status < 200 || status > 599 {
			return // net/http refuses it earlier
		}
		for name, ask := range map[string]func(*management.Client) error{
			"meet":        func(m *management.Client) error { _, err := m.Probe(t.Context()); return err },
			"whoami":      func(m *management.Client) error { _, err := m.Whoami(t.Context()); return err },
			"connections": func(m *management.Client) error { return m.Connections(t.Context(), func(management.LooseObject) {}) },
			"definitions": func(m *management.Client) error {
				_, _, err := snapshot.ReadDefinitions(t.Context(), m, "", nil)
				return err
			},
			"listings": func(m *management.Client) error { _, err := snapshot.ReadListings(t.Context(), m, nil); return err },
			"reading": func(m *management.Client) error {
				_, err := m.QueueInfo(t.Context(), "q", management.WithStatistics)
				return err
			},
			"policies": func(m *management.Client) error { _, err := m.Policies(t.Context()); return err },
			"delete":   func(m *management.Client) error { return m.Delete(t.Context(), "/queues/%2F/q") },
		} {
			m := management.NewClient(management.Options{
				URI: &url.URL{Scheme: "http", Host: "mq"}, Username: "bob", Password: password, VHost: "/", Endpoint: "mq:5672",
				Timeout: time.Minute, Connections: 1,
				Wrap: func(http.RoundTripper) http.RoundTripper { return &answers{status, body, 50} },
			})
			err := ask(m)
			if err == nil {
				continue
			}
			if !classified(err) {
				t.Errorf("%s: of no kind: %v", name, err)
			}
			for _, spelling := range []string{password, url.QueryEscape(password), url.PathEscape(password)} {
				if strings.Contains(err.Error(), spelling) {
					t.Errorf("%s: the error shows the password: %v", name, err)
				}
			}
		}
	})
}

func classified(err error) bool {
	for _, kind := range []error{
		brokererr.ErrAuthentication, brokererr.ErrAccessRefused, brokererr.ErrVHostNotFound, brokererr.ErrNotFound, brokererr.ErrUnreachable, brokererr.ErrUnproven, management.ErrNotModified,
	} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// FuzzEscape checks that an escaped name is one segment of a path, and is decoded to the same name.
func FuzzEscape(f *testing.F) {
	for _, name := range []string{"/", "orders", "a.b", ".", "..", "a/b", "%2F", "a b+c", "ü", "\xff", "?x=1#y", "\x00"} {
		f.Add(name, "orders")
	}
	f.Fuzz(func(t *testing.T, vhost, queue string) {
		if vhost == "" || queue == "" {
			return // RabbitMQ allows no such names
		}
		uri, err := url.Parse("http://mq/prefix/api/queues/" + management.Escape(vhost) + "/" + management.Escape(queue))
		if err != nil {
			t.Fatal(err)
		}
		if uri.RawQuery != "" || uri.Fragment != "" || uri.JoinPath().EscapedPath() != uri.EscapedPath() {
			t.Errorf("%q and %q are not taken for names only: %s", vhost, queue, uri)
		}
		segments := strings.Split(strings.TrimPrefix(uri.EscapedPath(), "/prefix/api/queues/"), "/")
		if len(segments) != 2 {
			t.Fatalf("%q and %q make %d segments: %s", vhost, queue, len(segments), uri)
		}
		for i, want := range []string{vhost, queue} {
			if got, err := url.PathUnescape(segments[i]); err != nil || got != want {
				t.Errorf("%q comes back as %q (%v)", want, got, err)
			}
		}
	})
}
