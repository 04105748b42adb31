package amqpconn

import (
	"encoding/binary"
	"slices"
)

// The frames of AMQP 0-9-1, see section 2.3.5 of its specification. A frame is a head, a payload and one byte at the end.
const (
	frameMethod = 1
	frameHeader = 2
	frameBody   = 3

	headSize = 7 // type, channel, size of the payload
	endSize  = 1
	// protocolHeaderSize is the size of the header that a client sends before its first frame: the letters AMQP and a version.
	protocolHeaderSize = 8
)

// head is the beginning of a frame.
type head struct {
	kind    byte
	channel uint16
	size    int // of the payload
}

func readHead(bytes []byte) head {
	return head{kind: bytes[0], channel: binary.BigEndian.Uint16(bytes[1:]), size: int(binary.BigEndian.Uint32(bytes[3:]))}
}

// method is the number of a class, and the number of a method in that class.
type method [2]uint16

// The methods that change the state of a connection.
var (
	connectionTuneOk    = method{10, 31}
	connectionClose     = method{10, 50}
	connectionCloseOk   = method{10, 51}
	connectionBlocked   = method{10, 60}
	connectionUnblocked = method{10, 61}
	channelOpen         = method{20, 10}
	channelFlow         = method{20, 20}
	channelFlowOk       = method{20, 21}
	channelClose        = method{20, 40}
	channelCloseOk      = method{20, 41}
	basicQos            = method{60, 10}
	basicConsume        = method{60, 20}
	basicCancel         = method{60, 30}
	basicCancelOk       = method{60, 31}
	basicPublish        = method{60, 40}
	basicReturn         = method{60, 50}
	basicDeliver        = method{60, 60}
	basicGet            = method{60, 70}
	basicGetOk          = method{60, 71}
	basicGetEmpty       = method{60, 72}
	basicAck            = method{60, 80}
	basicReject         = method{60, 90}
	basicNack           = method{60, 120}
)

// arguments decodes the beginning of a method's payload. Reads beyond its end return zeros and set short.
type arguments struct {
	rest  []byte
	short bool
}

func (a *arguments) take(size int) []byte {
	if len(a.rest) < size {
		a.short, a.rest = true, nil
		return make([]byte, size)
	}
	taken := a.rest[:size]
	a.rest = a.rest[size:]
	return taken
}

// nested returns a long string: its length in four bytes, then the string. If the payload ends earlier, it returns the available part.
func (a *arguments) nested() []byte { return a.take(min(int(a.uint32()), len(a.rest))) }

func (a *arguments) method() method { return method{a.uint16(), a.uint16()} }
func (a *arguments) bit() bool      { return a.take(1)[0]&1 == 1 }
func (a *arguments) uint16() uint16 { return binary.BigEndian.Uint16(a.take(2)) }
func (a *arguments) uint32() uint32 { return binary.BigEndian.Uint32(a.take(4)) }
func (a *arguments) uint64() uint64 { return binary.BigEndian.Uint64(a.take(8)) }

// text reads a short string: its length in one byte, then the string.
func (a *arguments) text() string { return string(a.take(int(a.take(1)[0]))) }

const (
	// longestReceived is the maximum number of bytes that are decoded of an arriving payload: a method, a short string and a number.
	longestReceived = 4 + 256 + 8
	// longestSent is the maximum number of bytes that are decoded of a sent payload: a method, a number and a bit.
	longestSent = 4 + 8 + 1
)

// contentSize returns the bytes of a content header that contain the size of the body. They follow the class and the weight.
func contentSize(payload []byte) []byte { return payload[4:12] }

// withoutProperties returns a content header without the properties. The flags, which follow the size of the body, are zero.
func withoutProperties(header []byte) []byte {
	const size = 14
	short := append(slices.Clone(header[:headSize+size-2]), 0, 0, header[len(header)-endSize])
	binary.BigEndian.PutUint32(short[3:], size)
	return short
}
