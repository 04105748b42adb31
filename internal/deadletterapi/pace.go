package deadletterapi

import (
	"net/http"
	"time"
)

// minRate is how many bytes a second a client must read at least, over a whole export.
const minRate = 64 << 10

// pace is how fast a client reads an answer. Its zero value is for a client that has read nothing.
type pace struct {
	written int
	waited  time.Duration // for the client
}

// allowance is how long the next write may take: writeTime, and less if the client has used up the time for all that was written.
func (p *pace) allowance() time.Duration {
	inAll := writeTime + time.Duration(p.written)*time.Second/minRate
	return min(writeTime, inAll-p.waited)
}

// write passes a part on to the client.
func (p *pace) write(w http.ResponseWriter, part []byte) error {
	control, began := http.NewResponseController(w), time.Now()
	_ = control.SetWriteDeadline(began.Add(p.allowance()))
	_, err := w.Write(part)
	if err == nil {
		err = control.Flush()
	}
	p.written += len(part)
	p.waited += time.Since(began)
	return err
}
