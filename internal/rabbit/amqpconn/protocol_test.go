package amqpconn

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"
)

// step is a frame that the client or the broker sends. On a real connection, frames come in pieces; see TestFramesInPieces.
type step struct {
	fromBroker bool
	frame      []byte
}

// sends returns a method of the client, and says a method of the broker. Numbers are encoded in the size of their type, texts after one
// byte with their length.
func sends(channel uint16, sent method, args ...any) step {
	return step{frame: methodFrame(channel, sent, args...)}
}

func says(channel uint16, said method, args ...any) step {
	return step{fromBroker: true, frame: methodFrame(channel, said, args...)}
}

func methodFrame(channel uint16, id method, args ...any) []byte {
	payload, _ := binary.Append(nil, binary.BigEndian, []uint16{id[0], id[1]})
	for _, arg := range args {
		if text, ok := arg.(string); ok {
			payload = append(append(payload, byte(len(text))), text...)
			continue
		}
		payload, _ = binary.Append(payload, binary.BigEndian, arg)
	}
	return frameOf(frameMethod, channel, payload)
}

func frameOf(kind byte, channel uint16, payload []byte) []byte {
	frame := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16([]byte{kind}, channel), uint32(len(payload)))
	return append(append(frame, payload...), 0xce)
}

// header returns a content header for a body of this size, with so many bytes of properties.
func header(channel uint16, body uint64, properties int) []byte {
	payload := binary.BigEndian.AppendUint64([]byte{0, 60, 0, 0}, body)
	return frameOf(frameHeader, channel, append(payload, make([]byte, properties)...))
}

// tables returns a content header with so many small tables, which take most memory for their size.
func tables(channel uint16, body uint64, count int) []byte {
	array := bytes.Repeat([]byte{'F', 0, 0, 0, 2, 0, 'V'}, count)
	table := append(binary.BigEndian.AppendUint32([]byte{1, 'a', 'A'}, uint32(len(array))), array...)
	payload := append(binary.BigEndian.AppendUint64([]byte{0, 60, 0, 0}, body), 1<<5, 0) // the flag of headers
	return frameOf(frameHeader, channel, append(binary.BigEndian.AppendUint32(payload, uint32(len(table))), table...))
}

func body(channel uint16, size int) []byte { return frameOf(frameBody, channel, make([]byte, size)) }

// delivers returns the frames of a delivery with a body of this size.
func delivers(number uint64, size int) []step {
	steps := []step{says(1, basicDeliver, "tag", number, byte(0), "", "key"), {true, header(1, uint64(size), 2)}}
	if size > 0 {
		steps = append(steps, step{true, body(1, size)})
	}
	return steps
}

func TestProtocol(t *testing.T) {
	t.Parallel()
	opened := []step{sends(1, channelOpen, ""), says(1, method{20, 11}, uint32(0))}
	consuming := func(prefetch uint16) []step {
		return slices.Concat(opened, []step{
			sends(1, basicQos, uint32(0), prefetch, byte(0)), says(1, method{60, 11}),
			sends(1, basicConsume, uint16(0), "q", "tag"), says(1, method{60, 21}, "tag"),
		})
	}
	publishing := slices.Concat(opened, []step{
		sends(1, method{85, 10}, byte(0)), says(1, method{85, 11}),
		sends(1, basicPublish, uint16(0), "", "q", byte(0)),
		{false, header(1, 3, 2)},
		{false, body(1, 3)},
		sends(1, basicPublish, uint16(0), "", "q", byte(0)),
		{false, header(1, 3, 2)},
		{false, body(1, 3)},
	})
	returns := []step{says(1, basicReturn, uint16(312), "NO_ROUTE", "", "q"), {true, header(1, 3, 2)}, {true, body(1, 3)}}
	for name, test := range map[string]struct {
		steps []step
		want  error // of the last step; all steps before it are allowed
	}{
		"a request, and its answer":               {steps: opened},
		"two answers to a request":                {append(opened, says(1, method{20, 11}, uint32(0))), errUnasked},
		"an answer on a channel that is not open": {[]step{says(2, method{50, 11}, "q", uint32(0), uint32(0))}, errUnasked},
		"deliveries that are acknowledged one by one": {steps: slices.Concat(consuming(1),
			delivers(1, 3), []step{sends(1, basicAck, uint64(1), byte(0))},
			delivers(2, 3), []step{sends(1, basicReject, uint64(2), byte(1))},
			delivers(3, 0), []step{sends(1, basicNack, uint64(3), byte(2))},
			delivers(4, 0), delivers(5, 0))},
		"deliveries that are acknowledged together": {steps: slices.Concat(consuming(1),
			delivers(1, 0), delivers(2, 0), []step{sends(1, basicAck, uint64(2), byte(1))},
			delivers(3, 0), delivers(4, 0), []step{sends(1, basicNack, uint64(0), byte(1))},
			delivers(5, 0), delivers(6, 0))},
		"more than twice the prefetch": {slices.Concat(consuming(1), delivers(1, 0), delivers(2, 0), delivers(3, 0)[:1]), errUnasked},
		"more after a message is acknowledged twice": {slices.Concat(consuming(1), delivers(1, 0), delivers(2, 0),
			[]step{sends(1, basicAck, uint64(1), byte(0)), sends(1, basicAck, uint64(1), byte(0))}, delivers(3, 0), delivers(4, 0)[:1]), errUnasked},
		"a delivery whose number is not the next": {slices.Concat(consuming(9), delivers(2, 0)[:1]), errUnasked},
		"a delivery without a consumer":           {slices.Concat(opened, delivers(1, 0)[:1]), errUnasked},
		"a delivery after the channel was closed, and opened again": {slices.Concat(consuming(9),
			[]step{sends(1, channelClose), says(1, channelCloseOk)}, opened, delivers(1, 0)[:1]), errUnasked},
		"deliveries while the channel is being closed": {steps: slices.Concat(consuming(1),
			[]step{sends(1, channelClose)}, delivers(1, 0), []step{says(1, channelCloseOk)})},
		"two closes of a channel that cross": {steps: append(opened, sends(1, channelClose), says(1, channelClose), says(1, channelCloseOk))},
		"a message that was got": {steps: slices.Concat(opened, []step{
			sends(1, basicGet, uint16(0), "q", byte(0)), says(1, basicGetOk, uint64(1), byte(0), "", "q", uint32(0)),
			{true, header(1, 0, 2)},
			sends(1, basicGet, uint16(0), "q", byte(0)), says(1, basicGetEmpty, ""),
		})},
		"a message in answer to something else": {append(opened,
			sends(1, method{50, 10}), says(1, basicGetOk, uint64(1), byte(0), "", "q", uint32(0))), errUnasked},
		"a message after another answer to its get": {append(opened,
			sends(1, basicGet, uint16(0), "q", byte(0)), says(1, method{50, 11}, "q", uint32(0), uint32(0)),
			says(1, basicGetOk, uint64(1), byte(0), "", "q", uint32(0))), errUnasked},
		"two messages in answer to one get": {append(opened,
			sends(1, basicGet, uint16(0), "q", byte(0)), says(1, basicGetEmpty, ""), says(1, basicGetOk, uint64(1), byte(0), "", "q", uint32(0))), errUnasked},
		"confirms":                   {steps: slices.Concat(publishing, []step{says(1, basicAck, uint64(2), byte(1))})},
		"a confirm of the future":    {slices.Concat(publishing, []step{says(1, basicAck, uint64(3), byte(1))}), errUnasked},
		"a refusal of the future":    {slices.Concat(publishing, []step{says(1, basicNack, uint64(3), byte(0))}), errUnasked},
		"returns before confirms":    {steps: slices.Concat(publishing, returns, []step{says(1, basicAck, uint64(1), byte(0))}, returns, []step{says(1, basicAck, uint64(2), byte(0))})},
		"more returns than messages": {slices.Concat(publishing, returns, returns, returns[:2]), errUnasked},
		"a return with more headers than its copy": {
			slices.Concat(publishing, returns[:1], []step{{true, tables(1, 3, 100)}}), errUnasked,
		},
		"returns with tables before confirms": {steps: slices.Concat(publishing, slices.Repeat(slices.Concat(
			[]step{sends(1, basicPublish, uint16(0), "", "q", byte(0)), {false, header(1, 3, 2)}, {false, body(1, 3)}},
			returns[:1], []step{{true, tables(1, 3, 5)}, {true, body(1, 3)}, says(1, basicAck, uint64(0), byte(1))},
		), 20))},
		"a return after confirms":              {slices.Concat(publishing, []step{says(1, basicAck, uint64(2), byte(1))}, returns[:2]), errUnasked},
		"a method in a message":                {slices.Concat(consuming(9), delivers(1, 3)[:2], delivers(2, 0)[:1]), errUnasked},
		"a header without message":             {append(opened, step{true, header(1, 3, 2)}), errUnasked},
		"a header that ends in the size":       {slices.Concat(consuming(9), delivers(1, 0)[:1], []step{{true, frameOf(frameHeader, 1, make([]byte, 11))}}), errUnasked},
		"a body that is too long":              {slices.Concat(consuming(9), delivers(1, 3)[:2], []step{{true, body(1, 4)}}), errUnasked},
		"an empty body":                        {slices.Concat(consuming(9), delivers(1, 3)[:2], []step{{true, body(1, 0)}}), errUnasked},
		"a body on channel 0":                  {[]step{{true, body(0, 3)}}, errUnasked},
		"a message that is as large as may be": {steps: slices.Concat(consuming(9), delivers(1, 0)[:1], []step{{true, header(1, LargestBody, 2)}})},
		"a message that is dropped":            {steps: slices.Concat(consuming(9), delivers(1, 0)[:1], []step{{true, header(1, LargestBody+1, 2)}}, bodyOf(LargestBody+1))},
		"a message larger than any":            {slices.Concat(consuming(9), delivers(1, 0)[:1], []step{{true, header(1, largestMessage+1, 2)}}), ErrTooLarge},
		"a large frame":                        {[]step{{true, body(1, UsualFrameMax)}}, ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := newProtocol(LargestBody, nil)
			defer state.bodies.close() // all tests of the process share one limit
			for i, step := range test.steps {
				err := follow(state, step)
				if last := i == len(test.steps)-1; last && !errors.Is(err, test.want) || !last && err != nil {
					t.Errorf("step %d: %v", i, err)
				}
			}
		})
	}
}

// bodyOf returns the frames of a body of this size.
func bodyOf(size int) (steps []step) {
	const maxPart = UsualFrameMax - headSize - endSize
	whole := body(1, maxPart)
	for ; size > 0; size -= maxPart {
		if size < maxPart {
			whole = body(1, size)
		}
		steps = append(steps, step{true, whole})
	}
	return steps
}

func follow(state *protocol, s step) error {
	frame, payload := readHead(s.frame), slices.Clone(s.frame[headSize:len(s.frame)-endSize]) // received changes it
	if !s.fromBroker {
		state.sent(frame, payload[:min(len(payload), longestSent)])
		return nil
	}
	fate, err := state.received(frame, payload[:min(len(payload), longestReceived)])
	if fate == holdBack && err == nil {
		_, err = state.holdBack(frame.channel, s.frame)
	}
	return err
}

func TestBlockedIsSeenInFrames(t *testing.T) {
	t.Parallel()
	var got []amqp.Blocking
	state := newProtocol(0, func(now amqp.Blocking) { got = append(got, now) })
	for _, step := range []step{says(0, connectionBlocked, "low on disk"), says(0, connectionUnblocked)} {
		if err := follow(state, step); err != nil {
			t.Error(err)
		}
	}
	if difference := cmp.Diff([]amqp.Blocking{{Active: true, Reason: "low on disk"}, {}}, got); difference != "" {
		t.Error(difference)
	}
}

// A server ends a channel against the protocol and continues a message on it, while this side opens the channel again.
func TestAChannelIsOpenedAgainInTheMiddleOfAMessage(t *testing.T) {
	t.Parallel()
	state := newProtocol(LargestBody, nil)
	for _, step := range []step{
		sends(1, channelOpen, ""), sends(1, basicQos, uint32(0), uint16(1), byte(0)), sends(1, basicConsume, uint16(0), "q", "tag"),
		says(1, basicDeliver, "tag", uint64(1), byte(0), "", "key"),
		{true, header(1, 2, 2)},
		{true, body(1, 1)},
		sends(1, channelOpen, ""),
	} {
		if err := follow(state, step); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := state.gather(readHead(body(1, 1))); !errors.Is(err, errUnasked) {
		t.Errorf("error %v", err)
	}
}

// The rest of a content header arrives after this side has opened the channel again.
func TestAChannelIsOpenedAgainInTheMiddleOfAHeader(t *testing.T) {
	t.Parallel()
	state, returned := newProtocol(0, nil), header(1, 3, 2)
	for _, step := range []step{sends(1, channelOpen, ""), says(1, basicReturn, uint16(312), "NO_ROUTE", "", "q")} {
		if err := follow(state, step); err != nil {
			t.Fatal(err)
		}
	}
	if fate, err := state.received(readHead(returned), slices.Clone(returned[headSize:])); fate != holdBack || err != nil {
		t.Fatal(fate, err)
	}
	if err := follow(state, sends(1, channelOpen, "")); err != nil {
		t.Fatal(err)
	}
	if _, err := state.holdBack(1, returned); !errors.Is(err, errUnasked) {
		t.Errorf("error %v", err)
	}
}

// A truncated frame is refused, and not read as if it ended with zeros.
func TestShortFrames(t *testing.T) {
	t.Parallel()
	state := newProtocol(LargestBody, nil)
	state.sent(readHead(methodFrame(1, channelOpen)), []byte{0, 20, 0, 10, 0})
	for _, payload := range [][]byte{{}, {0, 60}, {0, 60, 0, 60, 3, 'a'}, {0, 60, 0, 80, 0, 0}} {
		frame := frameOf(frameMethod, 1, payload)
		if err := follow(state, step{true, frame}); err == nil {
			t.Errorf("%v is allowed", payload)
		}
	}
}

// The library sees messages without bodies: a body is discarded or retained apart. Frames may arrive in any pieces.
func TestFramesInPieces(t *testing.T) {
	t.Parallel()
	write := slices.Concat([]byte("AMQP\x00\x00\x09\x01"), methodFrame(1, channelOpen, ""), methodFrame(1, basicQos, uint32(0), uint16(5), byte(0)),
		methodFrame(1, basicConsume, uint16(0), "q", "tag"), methodFrame(1, basicPublish, uint16(0), "", "q", byte(0)), header(1, 30000, 2), body(1, 30000))
	delivered, reply := methodFrame(1, basicDeliver, "tag", uint64(1), byte(0), "", "key"), methodFrame(1, method{20, 11}, uint32(0))
	text := bytes.Repeat([]byte("abc"), 10_001)
	read := slices.Concat(reply, delivered, header(1, 30003, 500), frameOf(frameBody, 1, text[:30000]), frameOf(frameBody, 1, text[30000:]), reply)
	want := slices.Concat(reply, delivered, header(1, 0, 500), reply)
	for i, size := range []int{1, 2, 7, 13, 100, 1 << 20, 1, 7, 1 << 20} {
		ours, theirs := net.Pipe()
		keeps := i > 5
		s := newSocket(ours, ours, newProtocol(map[bool]int64{true: LargestBody}[keeps], nil), nil)
		go func() {
			_, _ = io.CopyN(io.Discard, theirs, int64(len(write)))
			for piece := range slices.Chunk(read, size) {
				_, _ = theirs.Write(piece)
			}
			_ = theirs.Close()
		}()
		for piece := range slices.Chunk(write, size) {
			if _, err := s.Write(piece); err != nil {
				t.Fatal(err)
			}
		}
		got, err := io.ReadAll(bufio.NewReaderSize(s, 16))
		if err != nil {
			t.Errorf("in pieces of %d: %v", size, err)
		}
		if difference := cmp.Diff(want, got); difference != "" {
			t.Errorf("in pieces of %d: %s", size, difference)
		}
		if kept := s.incoming.state.bodies; keeps && !bytes.Equal(kept.of[delivery{"tag", 1}].body, text) {
			t.Errorf("in pieces of %d: another body was kept", size)
		}
		if s.incoming.state.channels[1].gathered != nil {
			t.Errorf("in pieces of %d: the channel holds the body", size)
		}
		_ = s.Close()
	}
}

func TestHeaderMemory(t *testing.T) {
	t.Parallel()
	text := append(binary.BigEndian.AppendUint32([]byte{1, 'a', 'S'}, 10_000), make([]byte, 10_000)...)
	withText := append(binary.BigEndian.AppendUint32(append(make([]byte, 12), 1<<5, 0), uint32(len(text))), text...)
	for name, test := range map[string]struct {
		payload []byte
		want    int64 // beside the size on the wire
	}{
		"no properties":    {header(1, 0, 2)[headSize:], 0},
		"a long text":      {withText, tableMemory + valueMemory},
		"many tables":      {tables(1, 0, 100)[headSize:], tableMemory + valueMemory + 100*(tableMemory+2*valueMemory)},
		"a truncated text": {withText[:100], tableMemory + valueMemory},
		"too short":        {make([]byte, 3), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := headerMemory(test.payload) - int64(len(test.payload)); got != test.want {
				t.Errorf("%d bytes, not %d", got, test.want)
			}
		})
	}
}

// The library sees a header without properties if the message does not fit into memory.
func TestAHeaderThatDoesNotFit(t *testing.T) {
	t.Parallel()
	state := newProtocol(LargestBody, nil)
	state.bodies.close()
	for _, step := range []step{
		sends(1, channelOpen, ""), sends(1, basicQos, uint32(0), uint16(1), byte(0)), sends(1, basicConsume, uint16(0), "q", "tag"),
		says(1, basicDeliver, "tag", uint64(1), byte(0), "", "key"),
	} {
		if err := follow(state, step); err != nil {
			t.Fatal(err)
		}
	}
	large := tables(1, 0, 100)
	if _, err := state.received(readHead(large), slices.Clone(large[headSize:])); err != nil {
		t.Fatal(err)
	}
	ready, err := state.holdBack(1, large)
	if difference := cmp.Diff(header(1, 0, 2), ready); difference != "" || err != nil {
		t.Error(err, difference)
	}
}
