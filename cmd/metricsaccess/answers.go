package metricsaccess

import (
	"crypto/sha256"
	"net/http"
	"sync"
	"time"
)

// For how long an answer counts. A permission that was taken away is good for so long, and one that was given helps after so long.
const (
	keepAdmission = time.Minute
	keepRefusal   = 10 * time.Second
)

// mostAnswers is how many answers are kept: callers may make up tokens.
const mostAnswers = 1024

// question is what the API server is asked of a caller. It does not hold the token, which is a secret.
type question struct {
	token      [sha256.Size]byte
	verb, path string
}

// answers are what the API server said recently.
type answers struct {
	timeNow func() time.Time

	mu    sync.Mutex
	known map[question]answer
}

type answer struct {
	status int
	until  time.Time
}

func newAnswers(timeNow func() time.Time) *answers {
	return &answers{timeNow: timeNow, known: map[question]answer{}}
}

func (a *answers) get(asked question) (status int, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	found, known := a.known[asked]
	if !known || !a.timeNow().Before(found.until) {
		return 0, false
	}
	return found.status, true
}

func (a *answers) put(asked question, status int) {
	keep := keepRefusal
	if status == http.StatusOK {
		keep = keepAdmission
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.timeNow()
	if len(a.known) >= mostAnswers {
		for old, given := range a.known {
			if !now.Before(given.until) {
				delete(a.known, old)
			}
		}
	}
	if len(a.known) >= mostAnswers {
		clear(a.known) // whoever is still there asks again
	}
	a.known[asked] = answer{status: status, until: now.Add(keep)}
}
