package amqpconn

import (
	"errors"
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The two sentinels that close a queue are sent in one piece. If they are sent separately, a busy or fast broker often processes the first
// before the second arrives, and refuses the second.
func TestTogetherSendsOnePiece(t *testing.T) {
	t.Parallel()
	line := &recorder{}
	s := newSocket(line, line, newProtocol(0, nil), nil)
	write := func(text string) {
		if _, err := s.Write([]byte(text)); err != nil {
			t.Error(err)
		}
	}
	const before, first, second, after = "AMQP\x00\x00\x09\x01", "\x08\x00\x01\x00\x00\x00\x00\xce", "\x08\x00\x02\x00\x00\x00\x00\xce",
		"\x08\x00\x03\x00\x00\x00\x00\xce"
	write(before)
	err := s.Together(func() error {
		write(first)
		write(second)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	write(after)
	refused := errors.New("refused")
	if err := s.Together(func() error { return refused }); !errors.Is(err, refused) {
		t.Errorf("%v is not the error of the writer", err)
	}
	if difference := cmp.Diff([]string{before, first + second, after}, line.pieces); difference != "" {
		t.Error(difference)
	}
}

// recorder records each piece that is sent.
type recorder struct {
	net.Conn
	pieces []string
}

func (r *recorder) Write(bytes []byte) (int, error) {
	r.pieces = append(r.pieces, string(bytes))
	return len(bytes), nil
}
