package deadletterapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/internal/deadletter"
)

const (
	// partSize is how many bytes of an export are written at a time.
	partSize = 64 << 10
	// slowClientWait is how long a browse waits for a slow client. It is short, because the browse hides its messages from other users.
	slowClientWait = 500 * time.Millisecond
	// holdTime is the limit of one browse of an export. Afterwards other users get the queue.
	holdTime = 10 * time.Second
	// chunkTime is the limit for a client to receive the buffered lines, and the last lines.
	chunkTime = 10 * time.Minute
)

// errUnread means that the client must first receive the buffered lines.
var errUnread = errors.New("the client reads too slowly")

// stream writes the lines of an export. It buffers up to maxPageBytes, so that the browse does not wait for the client.
type stream struct {
	// client ends when the client is gone.
	client context.Context
	leave  context.CancelFunc
	w      http.ResponseWriter
	// lines has the bytes that are not in a part yet.
	lines []byte
	parts chan []byte
	// unread counts the parts that the client has not received.
	unread sync.WaitGroup
	// written is closed when the writer has ended.
	written chan struct{}

	count int64
	// until is when the browse must return its messages; zero before its first message.
	until time.Time
	err   error // why the last message was not added
}

// newStream starts the writer. The caller must close the stream, and must not use w until then.
func newStream(client context.Context, w http.ResponseWriter) *stream {
	s := &stream{w: w, parts: make(chan []byte, maxPageBytes/partSize), written: make(chan struct{})}
	s.client, s.leave = context.WithCancel(client)
	go s.write()
	return s
}

// write writes parts as they arrive. It sends the header with the first part: before that, the response can become an error.
func (s *stream) write() {
	defer close(s.written)
	reads := pace{}
	for part := range s.parts {
		if s.client.Err() == nil {
			s.writePart(&reads, part)
		}
		s.unread.Done()
	}
}

func (s *stream) writePart(reads *pace, part []byte) {
	s.w.Header().Set("Content-Type", "application/x-ndjson")
	setSecurityHeaders(s.w)
	if err := reads.write(s.w, part); err != nil {
		s.leave()
	}
}

// add adds a message, and reports whether there is room for more.
func (s *stream) add(position int, deadLetter deadletter.Message) bool {
	if err := json.NewEncoder(lineWriter{s}).Encode(exported(deadLetter.Delivery, position)); err != nil {
		s.err = fmt.Errorf("write the message at position %d: %w", position, err)
		return false
	}
	s.count++
	for len(s.lines) >= partSize {
		if s.err = s.send(partSize, slowClientWait); s.err != nil {
			return false
		}
	}
	switch now := time.Now(); {
	case s.until.IsZero():
		s.until = now.Add(holdTime)
	case now.After(s.until):
		s.err = errUnread
	}
	return s.err == nil
}

// lineWriter appends lines to a stream without the copy that json.Marshal would make.
type lineWriter struct{ *stream }

func (w lineWriter) Write(line []byte) (int, error) {
	w.lines = append(w.lines, line...)
	return len(line), nil
}

// send passes the first size bytes to the writer. It returns errUnread if the writer has no room within the limit; the bytes then
// stay in lines.
func (s *stream) send(size int, within time.Duration) error {
	if err := s.client.Err(); err != nil {
		return err
	}
	part := s.lines[:size:size]
	s.unread.Add(1)
	select {
	case s.parts <- part: // there is room; without this case, a busy machine would look like a slow client
	default:
		waiting := time.NewTimer(within)
		defer waiting.Stop()
		select {
		case s.parts <- part:
		case <-s.client.Done():
			s.unread.Done()
			return s.client.Err()
		case <-waiting.C:
			s.unread.Done()
			return errUnread
		}
	}
	s.lines = s.lines[size:]
	return nil
}

// drain waits until the client has received all lines, so that there is room again.
func (s *stream) drain() error {
	late := time.AfterFunc(chunkTime, s.leave)
	defer late.Stop()
	for len(s.lines) > 0 {
		if s.err = s.send(min(partSize, len(s.lines)), chunkTime); s.err != nil {
			return s.err
		}
	}
	s.unread.Wait()
	s.until, s.err = time.Time{}, s.client.Err()
	return s.err
}

// end writes the last line, after all others.
func (s *stream) end(seen browsed, failure error) {
	last := v1alpha1.ExportEnd{Kind: v1alpha1.KindExportEnd, Count: s.count, Ready: int64(seen.ready), Seen: seen.Seen}
	if failure != nil {
		last.Error = failure.Error()
	}
	line, _ := json.Marshal(last) // only texts and numbers, which cannot fail
	s.lines = append(append(s.lines, line...), '\n')
	_ = s.drain() // an error means that the client is gone
}

// close waits until everything is written, or the client is gone.
func (s *stream) close() {
	close(s.parts)
	<-s.written
	s.leave()
}
