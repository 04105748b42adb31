package deadletterapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/internal/deadletter"
)

const (
	// partSize is how much of an export is written at a time, in bytes.
	partSize = 64 << 10
	// patience is how long a look waits for a client that takes nothing: messages that a look holds are out of the reach of others.
	patience = 500 * time.Millisecond
	// restTime is how long a client may take for the last lines after the look, and for all that waits then.
	restTime = time.Minute
)

var errSlowClient = errors.New("the client reads too slowly: messages went back to the queue before all were exported. " +
	"Ask from nearer by, or for fewer messages")

// stream writes the lines of an export. Up to mostAnswer bytes of lines wait for the client, so that the look does not.
type stream struct {
	// client ends when the client has gone.
	client context.Context
	leave  context.CancelFunc
	w      http.ResponseWriter
	// lines are those that are in no part yet.
	lines []byte
	parts chan []byte
	// written is closed when no more is written.
	written chan struct{}

	count int64
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
		if s.client.Err() != nil {
			continue
		}
		s.w.Header().Set("Content-Type", "application/x-ndjson")
		setSecurityHeaders(s.w)
		if err := reads.write(s.w, part); err != nil {
			s.leave()
		}
	}
}

// add takes a message, and says whether there is room for more.
func (s *stream) add(position int, letter deadletter.Letter) bool {
	line, err := json.Marshal(exported(letter.Delivery, position))
	if err != nil {
		s.err = fmt.Errorf("write the message at position %d: %w", position, err)
		return false
	}
	s.lines = append(append(s.lines, line...), '\n')
	s.count++
	for len(s.lines) >= partSize {
		if s.err = s.send(partSize, patience); s.err != nil {
			return false
		}
	}
	return true
}

// send passes the first lines on, at the latest when the client has had so much time. Of what is not passed on, nothing is lost.
func (s *stream) send(size int, within time.Duration) error {
	if err := s.client.Err(); err != nil {
		return err
	}
	part := s.lines[:size:size]
	select {
	case s.parts <- part: // there is room: a busy machine must not read this as a slow client
	default:
		waiting := time.NewTimer(within)
		defer waiting.Stop()
		select {
		case s.parts <- part:
		case <-s.client.Done():
			return s.client.Err()
		case <-waiting.C:
			return errSlowClient
		}
	}
	s.lines = s.lines[size:]
	return nil
}

// end writes the last line, after all others.
func (s *stream) end(seen v1alpha1.Seen, failure error) {
	last := v1alpha1.ExportEnd{Kind: v1alpha1.KindExportEnd, Count: s.count, Seen: seen}
	if failure != nil {
		last.Error = failure.Error()
	}
	line, _ := json.Marshal(last) // texts and numbers
	s.lines = append(append(s.lines, line...), '\n')
	until := time.Now().Add(restTime)
	for len(s.lines) > 0 && s.send(min(partSize, len(s.lines)), time.Until(until)) == nil {
	}
}

// close waits until all is written, or the client has gone, or has had time enough.
func (s *stream) close() {
	late := time.AfterFunc(restTime, s.leave)
	defer late.Stop()
	close(s.parts)
	<-s.written
	s.leave()
}
