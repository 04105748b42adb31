package lease

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

func TestTheLeaseIsHeldForATermAfterEachRenewal(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		method, path string
		status       int
		passed       time.Duration
		held         bool
	}{
		"taken":                 {http.MethodPost, "/apis/coordination.k8s.io/v1/namespaces/warren-system/leases", 201, 0, true},
		"renewed":               {http.MethodPut, "/apis/coordination.k8s.io/v1/namespaces/warren-system/leases/warren", 200, 0, true},
		"renewed a while ago":   {http.MethodPut, "/apis/coordination.k8s.io/v1/namespaces/warren-system/leases/warren", 200, 10*time.Second - 1, true},
		"renewed too long ago":  {http.MethodPut, "/apis/coordination.k8s.io/v1/namespaces/warren-system/leases/warren", 200, 10 * time.Second, false},
		"taken over by another": {http.MethodPut, "/apis/coordination.k8s.io/v1/namespaces/warren-system/leases/warren", 409, 0, false},
		"read":                  {http.MethodGet, "/apis/coordination.k8s.io/v1/namespaces/warren-system/leases/warren", 200, 0, false},
		"an Event":              {http.MethodPost, "/api/v1/namespaces/warren-system/events", 201, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				clock := &Clock{}
				if clock.Held() {
					t.Error("held before it was taken")
				}
				config := clock.Observe(&rest.Config{})
				answers := config.WrapTransport(answer(test.status))
				request := httptest.NewRequest(test.method, test.path, nil)
				response, err := answers.RoundTrip(request)
				if err != nil || response.StatusCode != test.status {
					t.Error(response, err)
				}
				time.Sleep(test.passed)
				if held := clock.Held(); held != test.held {
					t.Errorf("held: %t, want %t", held, test.held)
				}
			})
		})
	}
}

// The monotonic clock does not advance while a machine is paused, and the wall clock can be set back.
func TestTheLeaseEndsByEitherClock(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		monotonic, wall time.Duration
		held            bool
	}{
		"a moment later":             {9 * time.Second, 9 * time.Second, true},
		"the machine was paused":     {time.Second, 20 * time.Second, false},
		"the wall clock is slow":     {20 * time.Second, time.Second, false},
		"the wall clock is set back": {time.Second, -time.Hour, true},
	} {
		if held := isWithinTerm(test.monotonic, test.wall); held != test.held {
			t.Errorf("%s: held: %t", name, held)
		}
	}
}

// answer answers each request with a status.
type answer int

func (a answer) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: int(a), Body: http.NoBody}, nil
}
