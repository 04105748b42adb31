package apiaccess

import "net/http"

// limiter limits concurrent requests. Further requests wait for a slot, or until they are cancelled.
type limiter struct {
	slots chan struct{}
	next  http.RoundTripper
}

func (l *limiter) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case l.slots <- struct{}{}:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	defer func() { <-l.slots }()
	return l.next.RoundTrip(r)
}
