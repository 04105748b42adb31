// Package lease reports by the local clock whether this process still holds the Lease of the leader election. client-go reports the loss of
// the Lease too late. A process that was stopped until the Lease expired continues beside its successor, until its next renewal has failed
// for ten seconds.
package lease

import (
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

// term is how long a renewal counts: the renew deadline of controller-runtime. Another manager may acquire the Lease 15 s after the
// renewal, so an action that begins within the term has 5 s to end.
const term = 10 * time.Second

// Clock records the last renewal of the Lease. The zero value holds no Lease.
type Clock struct {
	renewed atomic.Pointer[time.Time]
}

// Observe returns a copy of a configuration for the leader election only. Each Lease written with it is a renewal.
func (c *Clock) Observe(config *rest.Config) *rest.Config {
	observed := rest.CopyConfig(config)
	observed.Wrap(func(next http.RoundTripper) http.RoundTripper { return renewals{next, c} })
	return observed
}

// Held reports whether the Lease was renewed within the term. It compares two clocks: the monotonic clock runs while the process
// is stopped, and the wall clock is corrected after a paused machine resumes.
func (c *Clock) Held() bool {
	renewed, now := c.renewed.Load(), time.Now()
	return renewed != nil && isWithinTerm(now.Sub(*renewed), now.Round(0).Sub(renewed.Round(0)))
}

// isWithinTerm takes the time since the last renewal by each clock.
func isWithinTerm(monotonic, wall time.Duration) bool { return max(monotonic, wall) < term }

// renewals records the writes of Leases.
type renewals struct {
	next  http.RoundTripper
	clock *Clock
}

// RoundTrip takes the start of a request as the time of the renewal. Other managers see the renewal later.
func (r renewals) RoundTrip(request *http.Request) (*http.Response, error) {
	began := time.Now()
	response, err := r.next.RoundTrip(request)
	writes := request.Method == http.MethodPost || request.Method == http.MethodPut
	if err == nil && response.StatusCode < http.StatusMultipleChoices && writes && strings.Contains(request.URL.Path, "/leases") {
		r.clock.renewed.Store(&began)
	}
	return response, err
}
