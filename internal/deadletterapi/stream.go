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
	// partSize is how much of an export is written at a time, in bytes.
	partSize = 64 << 10
	// patience is how long a look waits for a client that reads slowly: messages that a look holds are hidden from others.
	patience = 500 * time.Millisecond
	// holdTime is how long one look of an export may last, after which others have their turn.
	holdTime = 10 * time.Second
	// chunkTime is how long a client may take for what waits in a stream, and for the last lines.
	chunkTime = 10 * time.Minute
)

// errUnread says that the client has to read first what waits.
var errUnread = errors.New("the client reads too slowly")

// stream writes the lines of an export. Up to mostAnswer bytes of lines wait for the client, so that the look does not.
type stream struct {
	// client ends when the client has gone.
	client context.Context
	leave  context.CancelFunc
	w      http.ResponseWriter
	// lines are those that are in no part yet.
	lines []byte
	parts chan []byte
	// unread has the parts that wait for the client.
	unread sync.WaitGroup
	// written is closed when no more is written.
	written chan struct{}

	count int64
	// until is when messages have to go back; zero before the first one of a look.
	until time.Time
	err   error // why no more messages were added
}

// newStream begins to write. The caller must close the stream, and leaves w alone until then.
func newStream(client context.Context, w http.ResponseWriter) *stream {
	s := &stream{w: w, parts: make(chan []byte, mostAnswer/partSize), written: make(chan struct{})}
	s.client, s.leave = context.WithCancel(client)
	go s.write()
	return s
}

// write writes parts as they come. The header goes with the first of them: until then the answer may become an error.
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

// add takes a message, and says whether there is room for more.
func (s *stream) add(position int, letter deadletter.Letter) bool {
	if err := json.NewEncoder(lineWriter{s}).Encode(exported(letter.Delivery, position)); err != nil {
		s.err = fmt.Errorf("write the message at position %d: %w", position, err)
		return false
	}
	s.count++
	for len(s.lines) >= partSize {
		if s.err = s.send(partSize, patience); s.err != nil {
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

// lineWriter adds lines to a stream without a copy of them, which json.Marshal would make.
type lineWriter struct{ *stream }

func (w lineWriter) Write(line []byte) (int, error) {
	w.lines = append(w.lines, line...)
	return len(line), nil
}

// send passes the first lines on, at the latest when the client has had so much time. Of what is not passed on, nothing is lost.
func (s *stream) send(size int, within time.Duration) error {
	if err := s.client.Err(); err != nil {
		return err
	}
	part := s.lines[:size:size]
	s.unread.Add(1)
	select {
	case s.parts <- part: // there is room: a busy machine must not read this as a slow client
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

// drain waits until the client has read all that waits, so that there is room again.
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
func (s *stream) end(looked lookedAt, failure error) {
	last := v1alpha1.ExportEnd{Kind: v1alpha1.KindExportEnd, Count: s.count, Ready: int64(looked.ready), Seen: looked.Seen}
	if failure != nil {
		last.Error = failure.Error()
	}
	line, _ := json.Marshal(last) // texts and numbers
	s.lines = append(append(s.lines, line...), '\n')
	_ = s.drain() // nobody is left to be told
}

// close waits until all is written, or the client has gone.
func (s *stream) close() {
	close(s.parts)
	<-s.written
	s.leave()
}
