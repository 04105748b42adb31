package controller

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestSightings(t *testing.T) {
	t.Parallel()
	s := newSightings()
	cq := named(t, "shop", "orders", `{}`)
	first := s.first(cq)
	equal(t, "later", first, s.first(cq))
	again := named(t, "shop", "orders", `{}`)
	again.SetUID("another")
	equal(t, "of one that has the name now", true, s.first(again).After(first))
	s.forget(client.ObjectKeyFromObject(cq))
	equal(t, "remembered", 0, len(s.of))
}

// What counts is for how long a deletion failed, and not for how long it waited for the deletions of others.
func TestTrials(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		after []time.Duration // the failure before
		want  time.Duration
	}{
		"the first failure":                   {[]time.Duration{0}, 0},
		"failures every three seconds":        {[]time.Duration{0, 3 * time.Second, 3 * time.Second}, 6 * time.Second},
		"one that had to wait for its turn":   {[]time.Duration{0, time.Hour}, longestTry},
		"some that had to wait for each turn": {[]time.Duration{0, time.Hour, 3 * time.Second, time.Hour}, 2*longestTry + 3*time.Second},
	} {
		trials, now, got := newTrials(), noon, time.Duration(0)
		for _, after := range test.after {
			now = now.Add(after)
			got = trials.failed(named(t, "shop", "orders", `{}`), now)
		}
		equal(t, name, test.want, got)
		again := named(t, "shop", "orders", `{}`)
		again.SetUID("another")
		equal(t, name+", for one that has the name now", 0, trials.failed(again, now.Add(time.Hour)))
		trials.forget(client.ObjectKeyFromObject(again))
		equal(t, "remembered", 0, len(trials.of))
	}
}

func TestFarewells(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	bc := connectedTo("shop", "default", "rabbit@a", "/")
	f := newFarewells()
	for _, step := range []struct {
		name    string
		at      time.Duration
		waiting int
		want    time.Duration
	}{
		{"when it is seen first", 0, 2, 0},
		{"while nothing happens", time.Minute, 2, time.Minute},
		{"when another one comes", 2 * time.Minute, 3, 2 * time.Minute},
		{"when one is gone", 3 * time.Minute, 2, 0},
		{"while nothing happens again", 4 * time.Minute, 2, time.Minute},
		{"when the last is gone", 5 * time.Minute, 0, 5 * time.Minute},
	} {
		equal(t, step.name, step.want, f.since(bc, step.waiting, noon.Add(step.at)))
	}
	bc.SetUID("another")
	equal(t, "one that has the name now is seen for", 0, f.seen(bc))
	equal(t, "one that has the name now waits for", 0, f.since(bc, 1, noon.Add(time.Hour)))
	f.forget(client.ObjectKeyFromObject(bc))
	equal(t, "remembered", 0, len(f.of))
}
