// Package lease tells a leader whether it still holds the Lease of the leader election, by its own clock. client-go tells it late: a
// process that was stopped for longer than the Lease lasts works on beside its successor until its next renewal has failed for ten
// seconds.
package lease

import (
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

// term is for how long a renewal counts: the renew deadline of controller-runtime. Others may take the Lease over 15 s after the
// renewal, so what begins within the term has 5 s to end.
const term = 10 * time.Second

// Clock knows when this process last renewed the Lease. The zero value holds no Lease.
type Clock struct {
	renewed atomic.Pointer[time.Time]
}

// Observe returns a copy of a configuration for the leader election and nothing else: each Lease that is written with it is a renewal.
func (c *Clock) Observe(config *rest.Config) *rest.Config {
	observed := rest.CopyConfig(config)
	observed.Wrap(func(next http.RoundTripper) http.RoundTripper { return renewals{next, c} })
	return observed
}

// Held reports whether the Lease was renewed within the term. Both clocks count: the monotonic one runs on while the process is
// stopped, and the wall clock is set right when a machine that was paused goes on.
func (c *Clock) Held() bool {
	renewed, now := c.renewed.Load(), time.Now()
	return renewed != nil && max(now.Sub(*renewed), now.Round(0).Sub(renewed.Round(0))) < term
}

// renewals records the writes of Leases.
type renewals struct {
	next  http.RoundTripper
	clock *Clock
}

// RoundTrip takes the beginning of a request for the time of the renewal: the others see the renewal later.
func (r renewals) RoundTrip(request *http.Request) (*http.Response, error) {
	began := time.Now()
	response, err := r.next.RoundTrip(request)
	writes := request.Method == http.MethodPost || request.Method == http.MethodPut
	if err == nil && response.StatusCode < http.StatusMultipleChoices && writes && strings.Contains(request.URL.Path, "/leases") {
		r.clock.renewed.Store(&began)
	}
	return response, err
}
