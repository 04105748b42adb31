package observe

import "testing"

// The next refresh serves a request of a failed refresh. A later request keeps its own time.
func TestAFailedRequestIsServedAgain(t *testing.T) {
	t.Parallel()
	requests := &refreshRequests{wake: make(chan struct{}, 1)}
	requests.RequestRefresh()
	_, first := requests.take()
	requests.requeue(first)
	_, again := requests.take()
	if first.IsZero() || again != first {
		t.Errorf("asked at %v, and then at %v", first, again)
	}
	requests.RequestRefresh()
	requests.requeue(first)
	if _, later := requests.take(); !later.After(first) {
		t.Errorf("the later request was made at %v, the first one at %v", later, first)
	}
	if _, none := requests.take(); !none.IsZero() {
		t.Errorf("a request of %v is left", none)
	}
}
