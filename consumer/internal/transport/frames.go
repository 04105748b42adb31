package transport

import "encoding/binary"

// frames detects connection.blocked and connection.unblocked in the bytes that a connection reads. NotifyBlocked of amqp091-go
// v1.16.0 is no alternative: its reader blocks until the receiver is ready, and panics if it sends while the connection closes.
type frames struct {
	blocked func(bool)

	head [frameHeadSize + methodSize]byte // first bytes of the current frame
	have int                              // number of bytes in head
	skip int                              // number of bytes until the next frame
}

// A frame consists of type, channel and size, the payload, and one end byte. The payload of a method begins with the numbers of
// class and method. See section 2.3.5 of AMQP 0-9-1.
const (
	frameHeadSize = 7
	methodSize    = 4
	frameEndSize  = 1

	methodFrame         = 1
	connectionBlocked   = 10<<16 | 60
	connectionUnblocked = 10<<16 | 61
)

// read processes the next bytes of the stream.
func (f *frames) read(bytes []byte) {
	for len(bytes) > 0 {
		if f.skip > 0 {
			skipped := min(f.skip, len(bytes))
			f.skip, bytes = f.skip-skipped, bytes[skipped:]
			continue
		}
		want := f.want()
		copied := copy(f.head[f.have:want], bytes)
		f.have, bytes = f.have+copied, bytes[copied:]
		if f.have == f.want() {
			f.finishHead()
		}
	}
}

// want returns how many bytes of the current frame must be in head.
func (f *frames) want() int {
	if f.have >= frameHeadSize && f.isConnectionMethod() {
		return frameHeadSize + methodSize
	}
	return frameHeadSize
}

func (f *frames) isConnectionMethod() bool {
	return f.head[0] == methodFrame && binary.BigEndian.Uint16(f.head[1:]) == 0 && f.size() >= methodSize
}

func (f *frames) size() int { return int(binary.BigEndian.Uint32(f.head[3:])) }

func (f *frames) finishHead() {
	if f.have > frameHeadSize {
		switch binary.BigEndian.Uint32(f.head[frameHeadSize:]) {
		case connectionBlocked:
			f.blocked(true)
		case connectionUnblocked:
			f.blocked(false)
		}
	}
	f.skip = frameHeadSize + f.size() + frameEndSize - f.have
	f.have = 0
}
