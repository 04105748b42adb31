package transport

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	blocked   = frame(1, 0, 0, 10, 0, 60, 3, 'l', 'o', 'w')
	unblocked = frame(1, 0, 0, 10, 0, 61)
)

func frame(kind, channel byte, payload ...byte) []byte {
	return slices.Concat([]byte{kind, 0, channel, 0, 0, 0, byte(len(payload))}, payload, []byte{0xCE})
}

func TestFramesFindBlockedAndUnblocked(t *testing.T) {
	t.Parallel()
	deliver := frame(1, 1, 0, 60, 0, 60)
	body := frame(3, 1, blocked...) // looks like connection.blocked
	heartbeat := frame(8, 0)
	stream := slices.Concat(heartbeat, blocked, deliver, body, unblocked, heartbeat, blocked)
	for size := 1; size <= len(stream); size++ {
		var got []bool
		f := &frames{blocked: func(is bool) { got = append(got, is) }}
		for chunk := range slices.Chunk(stream, size) {
			f.read(chunk)
		}
		if diff := cmp.Diff([]bool{true, false, true}, got); diff != "" {
			t.Errorf("in pieces of %d bytes (-want +got):\n%s", size, diff)
		}
	}
}

// The bytes of connection.blocked may be read after amqp091-go has closed the connection. Publishers would then wait forever.
func TestAnAlarmEndsWithTheConnection(t *testing.T) {
	t.Parallel()
	var got []bool
	a := &alarm{notify: func(is bool) { got = append(got, is) }}
	f := &frames{blocked: a.set}
	f.read(blocked)
	a.end()
	f.read(blocked)
	if diff := cmp.Diff([]bool{true, false}, got); diff != "" {
		t.Errorf("blocked (-want +got):\n%s", diff)
	}
}
