package deadline

import "time"

// stretch is how many times as long everything may take.
const stretch = 6

// For is the limit for what takes at most the given time on an idle machine. It is for what must happen in the end, not
// for what must not happen meanwhile.
func For(idle time.Duration) time.Duration { return stretch * idle }

// Polling is how often a suite asks whether something has happened: each question costs the API server and the brokers
// time, which they don't have while many tests ask.
const Polling = 250 * time.Millisecond
