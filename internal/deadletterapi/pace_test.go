package deadletterapi

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// A slow client is disconnected even if it reads continuously. Time during which the server has nothing to write does not count.
func TestPace(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		each, idle time.Duration // per part: the client's time, and the server's time before it
		parts      int           // that the client receives
	}{
		"64 KiB in 9 s":                {each: 9 * time.Second, parts: 1},
		"64 KiB in 2 s":                {each: 2 * time.Second, parts: 9},
		"64 KiB in 0.9 s":              {each: 900 * time.Millisecond, parts: 1000},
		"a server that needs a minute": {each: 900 * time.Millisecond, idle: time.Minute, parts: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client := &slowClient{ResponseRecorder: httptest.NewRecorder(), each: test.each}
				p, parts := pace{}, 0
				for parts < 1000 && p.write(client, make([]byte, partSize)) == nil {
					parts++
					time.Sleep(test.idle)
				}
				topologytest.Equal(t, "parts", test.parts, parts)
			})
		})
	}
}

// A steady client may take longer for a large response than for one part.
func TestALargeAnswerIsWrittenInParts(t *testing.T) {
	t.Parallel()
	w := &patient{ResponseRecorder: httptest.NewRecorder()}
	writeJSON(w, http.StatusOK, strings.Repeat("x", 3*partSize))
	topologytest.Equal(t, "parts, each with a deadline of its own", []int{partSize, partSize, partSize, 3}, w.parts)
	topologytest.Equal(t, "deadlines", 4, w.deadlines)
}

// A page has a limit of time in addition to the limit of each part. Otherwise a client could hold its slot for 20 minutes.
func TestALargeAnswerEndsInTime(t *testing.T) {
	t.Parallel()
	for each, want := range map[time.Duration]time.Duration{
		time.Second / 2: 129 * time.Second / 2, writeTime - time.Second: answerTime, writeTime + time.Second: writeTime,
	} {
		t.Run(each.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				writeJSON(&slowClient{ResponseRecorder: httptest.NewRecorder(), each: each}, http.StatusOK, strings.Repeat("x", maxPageBytes))
				topologytest.Equal(t, "time", want, time.Since(began))
			})
		})
	}
}

// slowClient needs this time for each part, if the deadline allows.
type slowClient struct {
	*httptest.ResponseRecorder

	each     time.Duration
	deadline time.Time
}

func (c *slowClient) SetWriteDeadline(at time.Time) error {
	c.deadline = at
	return nil
}

func (c *slowClient) Write(part []byte) (int, error) {
	if time.Now().Add(c.each).After(c.deadline) {
		time.Sleep(time.Until(c.deadline))
		return 0, os.ErrDeadlineExceeded
	}
	time.Sleep(c.each)
	return len(part), nil
}

// patient records the parts of a response.
type patient struct {
	*httptest.ResponseRecorder
	deadlines int
	parts     []int
}

func (p *patient) SetWriteDeadline(time.Time) error {
	p.deadlines++
	return nil
}

func (p *patient) Write(part []byte) (int, error) {
	p.parts = append(p.parts, len(part))
	return p.ResponseRecorder.Write(part)
}
