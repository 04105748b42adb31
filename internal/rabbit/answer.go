package rabbit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// answer reads one answer of the management API and keeps to its limits. A broker may send whatever it likes: lists are
// decoded item by item, so that no more than one item is held as text.
type answer struct {
	management *management
	path       string
	body       io.Reader
	decoder    *json.Decoder
	limit      int64 // of the text
	read       int64
	items      int64
	// room is the memory of what was decoded, and of the text that is being decoded.
	room *room
	held int64 // what was decoded
	// counted is how much of the text is in held, where that is worked out from the text.
	counted int64
}

const (
	// chunk is how much is read at a time.
	chunk = 8 << 10
	// textFactor is how many bytes of memory a byte of text may take when it is decoded. Small tables take the most.
	textFactor = 64
	// shortestItem is what an item of a list counts for at least, in bytes: RabbitMQ's are longer, and items that hold
	// nothing take their time nonetheless.
	shortestItem = 32
)

// streamed is a result that decodes an answer item by item.
type streamed interface {
	decode(a *answer) error
}

func (m *management) newAnswer(path string, body io.Reader) *answer {
	a := &answer{management: m, path: path, body: body, limit: m.Limits.answer(path), room: &room{limits: m.Limits}}
	a.decoder = json.NewDecoder(a)
	a.decoder.UseNumber() // an int64 does not survive as a float64
	return a
}

// Read passes the text on to the decoder as long as no limit is exceeded.
func (a *answer) Read(p []byte) (int, error) {
	pending := a.read - a.decoder.InputOffset() // what the decoder holds
	switch {
	case a.read > a.limit, a.items*shortestItem > a.limit:
		return 0, a.tooLong()
	case pending > largestItem:
		return 0, a.management.errs.TooLarge(largestItem, "an item of the answer is larger")
	}
	if err := a.needs((pending + chunk) * textFactor); err != nil {
		return 0, err
	}
	n, err := a.body.Read(p[:min(len(p), chunk)])
	a.read += int64(n)
	return n, err
}

// tooLong names the flag where there is one that helps.
func (a *answer) tooLong() error {
	err := a.management.errs.TooLarge(a.limit, "the answer is larger")
	if a.limit == a.management.Limits.response {
		return fmt.Errorf("%w: raise the manager's flag --max-management-response, and its memory with it", err)
	}
	return err
}

// needs makes room for what was decoded and some more.
func (a *answer) needs(more int64) error {
	if a.room.need(a.held + more) {
		return nil
	}
	return fmt.Errorf("%w in memory: raise the manager's flag --max-management-response, and its memory with it",
		a.management.errs.TooLarge(a.room.limits.memory, "what is kept of all vhosts, with this answer, is larger"))
}

// into decodes the whole answer.
func (a *answer) into(result any) error {
	list, ok := result.(streamed)
	err := error(nil)
	if ok {
		err = list.decode(a)
	} else {
		err = a.decoder.Decode(result)
	}
	return a.describe(err)
}

// describe says of an error what it means.
func (a *answer) describe(err error) error {
	m := a.management
	syntax, mismatch := (*json.SyntaxError)(nil), (*json.UnmarshalTypeError)(nil)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrResponseTooLarge):
	case errors.As(err, &syntax) || errors.As(err, &mismatch) || errors.Is(err, errNotRabbitMQ):
		err = m.errs.Fail(ErrUnreachable, "the answer is not RabbitMQ's: %v", err)
	default:
		err = m.errs.Unreachable(err)
	}
	return m.describe(http.MethodGet, a.path, err)
}

// errNotRabbitMQ is JSON of another form than RabbitMQ's.
var errNotRabbitMQ = errors.New("unexpected JSON")

// delim reads a bracket or brace.
func (a *answer) delim(want json.Delim) error {
	token, err := a.decoder.Token()
	switch {
	case err != nil:
		return err
	case token != want:
		return fmt.Errorf("%w: no %v where one is due", errNotRabbitMQ, want)
	}
	return nil
}

// eachItem decodes an array item by item. take says how much memory an item takes that it keeps.
func eachItem[T any](a *answer, take func(T) (bytes int64, err error)) error {
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
		a.held += bytes
		if err := a.needs(0); err != nil {
			return err
		}
	}
	return a.delim(']')
}

// sections decodes an object whose values have their own ways to be decoded; others are left out.
func (a *answer) sections(ways map[string]func() error) error {
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
			delete(ways, name) // twice would be unlike RabbitMQ
		} else {
			err = a.decoder.Decode(&json.RawMessage{})
		}
		if err != nil {
			return err
		}
	}
	return a.delim('}')
}

// list is an array of items that is decoded item by item.
type list[T any] []T

func (l *list[T]) decode(a *answer) error {
	*l = nil
	return eachItem(a, func(item T) (int64, error) {
		*l = append(*l, item)
		bytes := (a.decoder.InputOffset() - a.counted) * textFactor
		a.counted = a.decoder.InputOffset()
		return bytes, nil
	})
}

// streamedFunc is a streamed result that is a function.
type streamedFunc func(*answer) error

func (f streamedFunc) decode(a *answer) error { return f(a) }
