package management

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/retry"
)

// ErrNotModified means that nothing changed since the ETag of the request.
var ErrNotModified = errors.New("not modified")

// Client is a client of the management API for one vhost, with a method for each request that Warren makes. Refreshes use one Client, with
// one request at a time; deletions share another. A Client keeps up to Options.Connections idle connections open.
type Client struct {
	Options

	errs   brokererr.Errors
	base   string // the URI, with /api at its end
	client *http.Client
	opened atomic.Bool // whether a TCP connection was opened since the last call of TookNewConnection
	// decoding is how many nanoseconds it took to decode answers since the last call of TakeDecodingTime.
	decoding atomic.Int64
	writes   retry.Slots
}

// Options are the address, the user and the limits of a Client.
type Options struct {
	URI *url.URL // without /api
	TLS *tls.Config

	Username, Password string
	VHost              string
	// Endpoint is host:port of the AMQP address of the same broker.
	Endpoint string
	// Timeout is how long a request may take, including its answer.
	Timeout time.Duration
	// Connections is how many requests run at a time.
	Connections int
	Limits      *Limits
	// HoldsLease reports whether this process still leads. If it does not, a Client writes nothing. If nil, the process always leads.
	HoldsLease func() bool
	// Wrap wraps the transport of all requests; nil for none.
	Wrap func(http.RoundTripper) http.RoundTripper
}

// NewClient returns a client for one vhost. It connects with the first request.
func NewClient(options Options) *Client {
	transport := http.DefaultTransport.(*http.Transport).Clone() // net/http documents this type
	transport.TLSClientConfig = options.TLS.Clone()              // a clone, because the transport adds protocols that AMQP does not use
	transport.MaxIdleConnsPerHost = options.Connections
	transport.IdleConnTimeout = 0 // a refresh interval may be longer than any timeout; the server may close idle connections
	transport.MaxResponseHeaderBytes = largestHeader
	// No HTTP/2: there are few requests to multiplex, and an answer may take megabytes of buffers.
	transport.Protocols = &http.Protocols{}
	transport.Protocols.SetHTTP1(true)
	if options.Limits == nil {
		options.Limits = NewLimits(0)
	}
	if options.HoldsLease == nil {
		options.HoldsLease = func() bool { return true }
	}
	wrapped := http.RoundTripper(transport)
	if options.Wrap != nil {
		wrapped = options.Wrap(transport)
	}
	return &Client{
		Options: options, errs: brokererr.Errors{Username: options.Username, Password: options.Password, VHost: options.VHost},
		base: options.URI.Scheme + "://" + options.URI.Host + strings.TrimRight(options.URI.EscapedPath(), "/") + "/api",
		client: &http.Client{
			Transport: wrapped,
			// Following a redirect would send the password to another server.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		writes: retry.NewSlots(1),
	}
}

func (c *Client) gotConn(connection httptrace.GotConnInfo) {
	if !connection.Reused {
		c.opened.Store(true)
	}
}

// TookNewConnection reports whether a TCP connection was opened since the last call.
func (c *Client) TookNewConnection() bool { return c.opened.Swap(false) }

// TakeDecodingTime returns how long it took to decode answers since the last call, without the time that the broker took to send them.
func (c *Client) TakeDecodingTime() time.Duration { return time.Duration(c.decoding.Swap(0)) }

// Close closes the idle connections.
func (c *Client) Close() { c.client.CloseIdleConnections() }

// Get reads the resource at the path into result, which is a pointer or a StreamedFunc. Names in the path must be escaped; see Escape.
// With an ETag, it returns ErrNotModified if nothing changed. It returns the ETag of the answer, which may be empty. Other errors wrap a
// reason of package brokererr.
func (c *Client) Get(ctx context.Context, path, etag string, result any) (string, error) {
	err := c.do(ctx, http.MethodGet, path, etag, nil, func(response *http.Response) error {
		switch response.StatusCode {
		case http.StatusNotModified:
			return ErrNotModified
		case http.StatusOK:
			etag = response.Header.Get("ETag")
			return c.decode(path, response.Body, result)
		}
		return c.describe(http.MethodGet, path, c.refused(response))
	})
	if err != nil && !errors.Is(err, ErrNotModified) {
		etag = ""
	}
	return etag, err
}

// Delete deletes the resource at the path. It returns nil if the resource does not exist.
func (c *Client) Delete(ctx context.Context, path string) error {
	return c.write(ctx, http.MethodDelete, path, nil)
}

// write makes one request at a time. Usually RabbitMQ answers after the queues have applied a new policy. If another policy is written at
// the same time, it may answer earlier, and a queue may apply the two policies in the wrong order, or only the second one. On 3.10 and 4.0,
// a queue that changes from refusing to dropping messages, without accepting them in between, blocks its publishers permanently.
//
// write waits until no other write is under way, and then returns brokererr.ErrNotLeader if this process no longer leads. A process that
// is paused while a request waits would otherwise write a policy that the next leader has removed.
func (c *Client) write(ctx context.Context, method, path string, content any) error {
	return c.writes.Hold(ctx, c.errs, func() error {
		if !c.HoldsLease() {
			return brokererr.ErrNotLeader
		}
		return c.do(ctx, method, path, "", content, func(response *http.Response) error {
			gone := method == http.MethodDelete && response.StatusCode == http.StatusNotFound
			if response.StatusCode < http.StatusMultipleChoices || gone {
				return nil
			}
			return c.describe(method, path, c.refused(response))
		})
	})
}

// do makes one request, passes the answer to read, and observes metrics.
func (c *Client) do(ctx context.Context, method, path, etag string, content any, read func(*http.Response) error) error {
	began := time.Now()
	err := c.request(ctx, method, path, etag, content, read)
	metrics.BrokerRequests.Observe(time.Since(began), "management", method+" "+endpointOf(path).path, resultOf(err))
	return err
}

// resultOf returns the outcome of a request as a label for metrics.
func resultOf(err error) string {
	if errors.Is(err, ErrNotModified) {
		return "not_modified"
	}
	return brokererr.Result(err)
}

func (c *Client) request(ctx context.Context, method, path, etag string, content any, read func(*http.Response) error) error {
	ctx, cancel := context.WithTimeout(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: c.gotConn}), c.Timeout)
	defer cancel()
	body := io.Reader(http.NoBody)
	if content != nil {
		text, err := json.Marshal(content)
		if err != nil {
			return c.describe(method, path, err)
		}
		body = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return c.errs.Unreachable(err)
	}
	request.SetBasicAuth(c.Username, c.Password)
	// net/http repeats a GET whose connection was closed. It must not repeat writes: after a pause, another process may lead.
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Content-Type", "application/json")
	if etag != "" {
		request.Header.Set("If-None-Match", etag)
	}
	response, err := c.client.Do(request)
	if err != nil {
		return c.describe(method, path, c.errs.Unreachable(err))
	}
	if response.StatusCode == http.StatusSwitchingProtocols {
		_ = response.Body.Close() // the body may be the connection itself, and then the end of the context does not end a read
		return c.describe(method, path, c.unknownAnswer(response))
	}
	defer func() {
		_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<16)) // a connection with an unread answer cannot be reused
		_ = response.Body.Close()
	}()
	return read(response)
}

// decode decodes an answer within its limits.
func (c *Client) decode(path string, body io.Reader, result any) error {
	began := time.Now()
	a := c.newAnswer(path, body)
	defer func() { a.Room.Free() }() // EachKept replaces the room
	err := a.into(result)
	c.decoding.Add(int64(time.Since(began) - a.waited))
	return err
}

func (c *Client) describe(method, path string, err error) error {
	resource, _, _ := strings.Cut(path, "?")
	return fmt.Errorf("management API, %s /api%s: %w", method, resource, err)
}

// refused returns the error for an answer that is neither 200 nor 304. RabbitMQ 3.10 to 4.3 answer
//
//   - 401 "Login failed" or "Not_Authorized" to a wrong password,
//   - 401 "Not management user" (or monitor, administrator) if the user lacks a tag,
//   - 401 "User not authorised to access virtual host", from 4.3 on 404,
//   - 404 if the vhost does not exist, and 400 "vhost_not_found" for its definitions.
func (c *Client) refused(response *http.Response) error {
	var answer struct{ Error, Reason string }
	text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<16)) // without it, only the reason is missing
	_ = json.Unmarshal(text, &answer)                           // a proxy may answer in HTML
	user := fmt.Sprintf("user %q", c.Username)
	switch {
	case response.StatusCode == http.StatusUnauthorized && tagMissing(answer.Reason) != "":
		return c.errs.Fail(brokererr.ErrAccessRefused, "%s lacks the tag %s", user, tagMissing(answer.Reason))
	case response.StatusCode == http.StatusUnauthorized && strings.Contains(answer.Reason, "access"):
		return c.errs.Fail(brokererr.ErrAccessRefused, "%s: %s %q", user, lowerFirst(answer.Reason), c.VHost)
	case response.StatusCode == http.StatusUnauthorized:
		return c.errs.Fail(brokererr.ErrAuthentication, "%s", user)
	case response.StatusCode == http.StatusForbidden && answer.Reason == "": // a proxy's answer
		return c.errs.Fail(brokererr.ErrAccessRefused, "%s: answered %s; is this RabbitMQ's management API?", user, response.Status)
	case response.StatusCode == http.StatusForbidden:
		return c.errs.Fail(brokererr.ErrAccessRefused, "%s: %s", user, answer.Reason)
	case answer.Reason == "vhost_not_found", response.StatusCode == http.StatusNotFound && answer.Error != "":
		return c.errs.Fail(brokererr.ErrVHostNotFound, "vhost %q does not exist, or %s has no access to it", c.VHost, user)
	case answer.Reason != "":
		return c.errs.Fail(brokererr.ErrUnreachable, "answered %s: %s", response.Status, answer.Reason)
	}
	if response.StatusCode == http.StatusInternalServerError {
		return c.errs.Fail(brokererr.ErrUnreachable, "answered %s; see the log of RabbitMQ", response.Status)
	}
	return c.unknownAnswer(response)
}

// unknownAnswer returns the error for an answer that RabbitMQ would not send.
func (c *Client) unknownAnswer(response *http.Response) error {
	return c.errs.Fail(brokererr.ErrUnreachable, "answered %s; is this RabbitMQ's management API?", response.Status)
}

// tagMissing returns the tag in a reason such as "Not management user"; empty for any other reason.
func tagMissing(reason string) string {
	tag, ok := strings.CutSuffix(reason, " user")
	if !ok {
		return ""
	}
	tag, ok = strings.CutPrefix(tag, "Not ")
	if !ok {
		return ""
	}
	if tag == "monitor" {
		return "monitoring"
	}
	return tag
}

func lowerFirst(text string) string {
	if text == "" {
		return text
	}
	return strings.ToLower(text[:1]) + text[1:]
}

// Escape escapes a name as one segment of a path. Unlike url.PathEscape, it escapes the dot, because "." and ".." have a meaning in a path,
// and the plus, which some servers read as a space.
func Escape(name string) string {
	var escaped strings.Builder
	for _, b := range []byte(name) {
		if b == '-' || b == '_' || b == '~' || '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' {
			escaped.WriteByte(b)
		} else {
			fmt.Fprintf(&escaped, "%%%02X", b)
		}
	}
	return escaped.String()
}
