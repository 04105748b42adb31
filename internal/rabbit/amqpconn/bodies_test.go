package amqpconn

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Not parallel, because all connections of the process share one limit.
func TestBodiesAreDroppedWhenMemoryIsUsed(t *testing.T) { //nolint:paralleltest // see above
	const mib = 1 << 20
	type step struct {
		connection int
		consumer   string
		size       int64
		overhead   int64
		release    bool // release the first message before this message arrives
	}
	for name, test := range map[string]struct {
		steps []step
		kept  []bool
	}{
		"small ones":                       {[]step{{0, "a", 100, 0, false}, {0, "a", 100, 0, false}}, []bool{true, true}},
		"the largest one":                  {[]step{{0, "a", 16 * mib, 0, false}}, []bool{true}},
		"a larger one, followed by others": {[]step{{0, "a", 16*mib + 1, 0, false}, {0, "a", 100, 0, false}}, []bool{false, true}},
		"more than a connection keeps": {
			[]step{{0, "a", 15 * mib, 0, false}, {0, "a", 15 * mib, 0, false}, {0, "a", 100, 0, false}}, []bool{true, false, false},
		},
		"another consumer, after the release": {
			[]step{{0, "a", 15 * mib, 0, false}, {0, "a", 15 * mib, 0, false}, {0, "b", 15 * mib, 0, true}}, []bool{true, false, true},
		},
		"one after the other": {[]step{{0, "a", 15 * mib, 0, false}, {0, "a", 15 * mib, 0, true}}, []bool{true, true}},
		"headers":             {[]step{{0, "a", 100, 15 * mib, false}, {0, "a", 100, 15 * mib, false}, {0, "b", 100, 15 * mib, true}}, []bool{true, false, true}},
		"headers of a message that is larger than may be": {
			[]step{{0, "a", 16*mib + 1, 15 * mib, false}, {0, "a", 100, 15 * mib, false}}, []bool{false, false},
		},
		"more than the process keeps": {
			[]step{{0, "a", 16 * mib, 0, false}, {1, "a", 16 * mib, 0, false}, {2, "a", 8 * mib, 0, false}, {2, "a", 9 * mib, 0, false}, {3, "a", 16 * mib, 0, false}},
			[]bool{true, true, true, false, true},
		},
		"small ones while others use all memory": {
			[]step{
				{0, "a", 16 * mib, 0, false},
				{1, "a", 16 * mib, 0, false},
				{2, "a", 16 * mib, 0, false},
				{3, "a", 100, 0, false},
				{3, "a", 100, 0, false},
				{3, "a", mib / 2, 0, false},
			},
			[]bool{true, true, true, true, true, false},
		},
	} {
		t.Run(name, func(t *testing.T) {
			connections := []*bodies{newBodies(LargestBody), newBodies(LargestBody), newBodies(LargestBody), newBodies(LargestBody)}
			var kept []bool
			for i, step := range test.steps {
				connection := connections[step.connection]
				if step.release {
					connection.release(delivery{"a", 0})
				}
				room, fits := connection.keep(delivery{step.consumer, uint64(i)}, step.size, step.overhead)
				kept = append(kept, fits && room != nil)
				if int64(len(room)) != step.size && room != nil {
					t.Errorf("%d bytes for a body of %d", len(room), step.size)
				}
			}
			if difference := cmp.Diff(test.kept, kept); difference != "" {
				t.Error(difference)
			}
			for _, connection := range connections {
				connection.close()
			}
			if left := keptByProcess.Load(); left != 0 {
				t.Errorf("%d bytes are counted after all connections have ended", left)
			}
		})
	}
}
