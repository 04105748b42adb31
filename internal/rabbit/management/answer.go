package management

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
)

// Answer reads one answer of the management API within its limits, because a broker may send anything. It decodes lists item by item, so
// that only one item at a time is in memory as JSON.
type Answer struct {
	management *Client
	path       string
	body       io.Reader
	decoder    *json.Decoder
	limit      int64 // of the JSON
	read       int64
	waited     time.Duration // for the broker
	items      int64
	// Room is the memory of the decoded items, and of the JSON that is being decoded.
	Room *Room
	Held int64 // memory of the decoded items, in bytes
	// counted is the number of JSON bytes that List has already counted in Held.
	counted int64
}

const (
	// chunk is how many bytes are read at a time.
	chunk = 8 << 10
	// textFactor is the maximum number of bytes of memory that a byte of JSON takes when it is decoded. Small tables take the most.
	textFactor = 64
	// shortestItem is the minimum number of bytes that each item of a list counts against the limit. RabbitMQ's items are longer, but even
	// empty items take time to decode.
	shortestItem = 32
)

// streamed is a result that decodes an answer item by item.
type streamed interface {
	// Decode reads the answer.
	Decode(a *Answer) error
}

func (c *Client) newAnswer(path string, body io.Reader) *Answer {
	a := &Answer{management: c, path: path, body: body, limit: c.Limits.answer(path), Room: &Room{Limits: c.Limits}}
	a.decoder = json.NewDecoder(a)
	a.decoder.UseNumber() // a float64 cannot represent every int64
	return a
}

// Read passes JSON to the decoder unless a limit is exceeded.
func (a *Answer) Read(p []byte) (int, error) {
	pending := a.read - a.decoder.InputOffset() // in the decoder's buffer
	switch {
	case a.read > a.limit, a.items*shortestItem > a.limit:
		return 0, a.tooLong()
	case pending > largestItem:
		return 0, a.management.errs.TooLarge(largestItem, "an item of the answer is larger")
	}
	if err := a.needs((pending + chunk) * textFactor); err != nil {
		return 0, err
	}
	began := time.Now()
	n, err := a.body.Read(p[:min(len(p), chunk)])
	a.waited += time.Since(began)
	a.read += int64(n)
	return n, err
}

// tooLong names the flag that raises the limit, if there is one.
func (a *Answer) tooLong() error {
	err := a.management.errs.TooLarge(a.limit, "the answer is larger")
	if a.limit == a.management.Limits.response {
		return fmt.Errorf("%w: raise the manager's flag --max-management-response and the memory limit of its container", err)
	}
	return err
}

// needs reserves memory for the decoded items and the given number of additional bytes.
func (a *Answer) needs(more int64) error {
	if a.Room.need(a.Held + more) {
		return nil
	}
	return fmt.Errorf("%w: raise the manager's flag --max-management-response and the memory limit of its container",
		a.management.errs.TooLarge(a.Room.Limits.Memory, "the memory of all vhosts, with this answer, is larger"))
}

// into decodes the whole answer into result.
func (a *Answer) into(result any) error {
	if list, ok := result.(streamed); ok {
		return a.describe(list.Decode(a))
	}
	return a.describe(a.decoder.Decode(result))
}

// describe classifies an error, and adds the request.
func (a *Answer) describe(err error) error {
	m := a.management
	syntax, mismatch := (*json.SyntaxError)(nil), (*json.UnmarshalTypeError)(nil)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, brokererr.ErrResponseTooLarge):
	case errors.As(err, &syntax) || errors.As(err, &mismatch) || errors.Is(err, ErrNotRabbitMQ):
		err = m.errs.Fail(brokererr.ErrUnreachable, "the response is not from RabbitMQ: %v", err)
	default:
		err = m.errs.Unreachable(err)
	}
	return m.describe(http.MethodGet, a.path, err)
}

// ErrNotRabbitMQ means that the answer is JSON, but not in the form that RabbitMQ sends.
var ErrNotRabbitMQ = errors.New("unexpected JSON")

// delim reads a bracket or a brace.
func (a *Answer) delim(want json.Delim) error {
	token, err := a.decoder.Token()
	switch {
	case err != nil:
		return err
	case token != want:
		return fmt.Errorf("%w: %v is missing", ErrNotRabbitMQ, want)
	}
	return nil
}

// eachItem decodes an array item by item. take returns how much memory it retains of an item, in bytes. eachItem returns the first error
// of take.
func eachItem[T any](a *Answer, take func(T) (bytes int64, err error)) error {
	if err := a.delim('['); err != nil {
		return err
	}
	for a.decoder.More() {
		var item T
		if err := a.decoder.Decode(&item); err != nil {
			return err
		}
		a.items++
		bytes, err := take(item)
		if err != nil {
			return err
		}
		a.Held += bytes
		if err := a.needs(0); err != nil {
			return err
		}
	}
	return a.delim(']')
}

// Kept is the memory of items from several answers. The caller must free Room when it no longer uses the items.
type Kept struct {
	Room  *Room
	Bytes int64
}

// NewKept returns a Kept without items.
func NewKept(limits *Limits) *Kept { return &Kept{Room: &Room{Limits: limits}} }

// each requests a list, and decodes it with eachItem.
func each[T any](ctx context.Context, c *Client, path string, take func(T) (bytes int64, err error)) error {
	_, err := c.Get(ctx, path, "", StreamedFunc(func(a *Answer) error { return eachItem(a, take) }))
	return err
}

// EachKept is eachItem for items that the caller retains longer than the answer. It adds their memory to that of earlier answers.
func EachKept[T any](a *Answer, kept *Kept, take func(T) (bytes int64, err error)) error {
	a.Room.Free()
	a.Room, a.Held = kept.Room, kept.Bytes
	err := eachItem(a, func(item T) (int64, error) {
		bytes, err := take(item)
		kept.Bytes += bytes
		return bytes, err
	})
	a.Room, a.Held = &Room{Limits: kept.Room.Limits}, 0
	return err
}

// Sections decodes an object. For each key in ways, it calls the function that decodes the value, and removes the key from ways. It skips
// all other keys.
func (a *Answer) Sections(ways map[string]func() error) error {
	if err := a.delim('{'); err != nil {
		return err
	}
	for a.decoder.More() {
		key, err := a.decoder.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		if way, known := ways[name]; known {
			err = way()
			delete(ways, name) // RabbitMQ sends no key twice
		} else {
			err = a.decoder.Decode(&json.RawMessage{})
		}
		if err != nil {
			return err
		}
	}
	return a.delim('}')
}

// List is an array of items that is decoded item by item.
type List[T any] []T

// Decode reads the array.
func (l *List[T]) Decode(a *Answer) error {
	*l = nil
	return eachItem(a, func(item T) (int64, error) {
		*l = append(*l, item)
		bytes := (a.decoder.InputOffset() - a.counted) * textFactor
		a.counted = a.decoder.InputOffset()
		return bytes, nil
	})
}

// StreamedFunc is a function that decodes an answer item by item. Pass it to Get as the result.
type StreamedFunc func(*Answer) error

// Decode calls the function.
func (f StreamedFunc) Decode(a *Answer) error { return f(a) }
