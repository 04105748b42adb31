package amqpconn

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Not parallel: the process has one budget.
func TestBodiesAreDroppedWhenMemoryIsUsed(t *testing.T) { //nolint:paralleltest // see above
	const mib = 1 << 20
	type step struct {
		connection int
		consumer   string
		size       int64
		release    int64 // before the message arrives
	}
	for name, test := range map[string]struct {
		steps []step
		kept  []bool
	}{
		"small ones":                        {[]step{{0, "a", 100, 0}, {0, "a", 100, 0}}, []bool{true, true}},
		"the largest one":                   {[]step{{0, "a", 16 * mib, 0}}, []bool{true}},
		"a larger one, which others follow": {[]step{{0, "a", 16*mib + 1, 0}, {0, "a", 100, 0}}, []bool{false, true}},
		"more than a connection keeps": {
			[]step{{0, "a", 15 * mib, 0}, {0, "a", 15 * mib, 0}, {0, "a", 100, 0}}, []bool{true, false, false},
		},
		"another consumer, after the release": {
			[]step{{0, "a", 15 * mib, 0}, {0, "a", 15 * mib, 0}, {0, "b", 15 * mib, 15 * mib}}, []bool{true, false, true},
		},
		"one after the other": {[]step{{0, "a", 15 * mib, 0}, {0, "a", 15 * mib, 15 * mib}}, []bool{true, true}},
		"more than the process keeps": {
			[]step{{0, "a", 16 * mib, 0}, {1, "a", 16 * mib, 0}, {2, "a", 8 * mib, 0}, {2, "a", 9 * mib, 0}, {3, "a", 16 * mib, 0}},
			[]bool{true, true, true, false, true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			connections := []*bodies{newBodies(LargestBody), newBodies(LargestBody), newBodies(LargestBody), newBodies(LargestBody)}
			var kept []bool
			for i, step := range test.steps {
				connection := connections[step.connection]
				connection.release(step.release)
				kept = append(kept, connection.keep(delivery{step.consumer, uint64(i)}, step.size))
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
