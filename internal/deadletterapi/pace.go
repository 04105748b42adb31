package deadletterapi

import (
	"net/http"
	"time"
)

// minRate is the minimum average rate of a client during an export, in bytes per second.
const minRate = 64 << 10

// pace measures how fast a client receives a response. The zero value is ready to use.
type pace struct {
	written int
	waited  time.Duration // for the client
}

// allowance returns the time limit of the next write: writeTime, or less if the client was too slow so far.
func (p *pace) allowance() time.Duration {
	inAll := writeTime + time.Duration(p.written)*time.Second/minRate
	return min(writeTime, inAll-p.waited)
}

// write sends a part to the client.
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
