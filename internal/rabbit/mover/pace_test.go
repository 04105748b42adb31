package mover

import "testing"

// The prefetch is how many messages fit into 16 MiB, estimated from the sizes of recent messages.
func TestHowManyMessagesFit(t *testing.T) {
	for name, c := range map[string]struct {
		bodies []alike
		limit  int
		want   int
	}{
		"no size is known yet":                     {nil, 500, 16},
		"no size is known, and the limit is small": {nil, 4, 4},
		"a few sizes are known":                    {[]alike{{15, 10 << 20}}, 500, 16},
		"no more than twice as many as were seen":  {[]alike{{100, 1000}}, 500, 128},
		"small messages":                           {[]alike{{250, 1000}}, 500, 500},
		"64 kB":                                    {[]alike{{250, 64_000}}, 500, 256},
		"10 MiB":                                   {[]alike{{100, 10 << 20}}, 500, 1},
		"larger than the limit":                    {[]alike{{100, 100 << 20}}, 500, 1},
		"a large message among small ones":         {[]alike{{1000, 1000}, {1, 1 << 20}}, 500, 500},
		"large messages after many small ones": {
			[]alike{{100_000, 1000}, {64, 1 << 20}}, 500, 16,
		},
		"small messages after large ones": {[]alike{{1000, 1 << 20}, {500, 1000}}, 500, 500},
	} {
		t.Run(name, func(t *testing.T) {
			var s sizes
			for _, r := range c.bodies {
				for range r.messages {
					s.add(r.bytes)
				}
			}
			if got := s.fitting(c.limit); got != c.want {
				t.Errorf("%d messages, want %d", got, c.want)
			}
		})
	}
}

// After a body was dropped, the prefetch is smaller until enough other messages have arrived.
func TestHowManyMessagesFitAfterABodyWasDropped(t *testing.T) {
	for name, c := range map[string]struct {
		size           int64
		prefetch, more int
		want           int
	}{
		"1 MiB":                         {1 << 20, 500, 0, 24},
		"the largest":                   {16 << 20, 500, 0, 1},
		"a small one, by other bodies":  {100, 16, 0, 8},
		"one at a time stays one":       {100, 1, 0, 1},
		"1 MiB, and many small ones":    {1 << 20, 500, 256, 48},
		"1 MiB, and thousands of them":  {1 << 20, 500, 4096, 500},
		"1 MiB, and few small ones yet": {1 << 20, 500, 255, 24},
	} {
		t.Run(name, func(t *testing.T) {
			var s sizes
			for range 1000 {
				s.add(100)
			}
			s.shrink(c.size, c.prefetch)
			for range c.more {
				s.add(100)
				s.relax()
			}
			if got := s.fitting(500); got != c.want {
				t.Errorf("%d messages, want %d", got, c.want)
			}
		})
	}
}

// alike describes several messages of one size.
type alike struct {
	messages int
	bytes    int64
}
