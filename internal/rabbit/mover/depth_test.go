package mover

import "testing"

func TestRoomForMessages(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		depth int
		busy  bool
		want  int
	}{
		"the destination is empty":              {0, false, 100},
		"one message fits":                      {99, false, 1},
		"more messages than the limit":          {105, false, 0},
		"a busy destination has room for one":   {99, true, 0},
		"a tenth of a busy destination is free": {90, true, 10},
		"less than a tenth of it is free":       {91, true, 0},
	} {
		if room := roomFor(100, test.depth, test.busy); room != test.want {
			t.Errorf("%s: room for %d, want %d", name, room, test.want)
		}
	}
}
