package main

import (
	"testing"

	"github.com/prometheus/procfs"
)

func TestBelow(t *testing.T) {
	t.Parallel()
	all := map[int]procfs.ProcStat{1: {PID: 1}, 2: {PID: 2, PPID: 1}, 3: {PID: 3, PPID: 2}, 4: {PID: 4, PPID: 1}}
	for _, row := range []struct {
		pid, ancestor int
		want          bool
	}{{3, 2, true}, {3, 1, true}, {2, 2, true}, {4, 2, false}, {2, 3, false}, {9, 1, false}} {
		if got := below(all, row.pid, row.ancestor); got != row.want {
			t.Errorf("%d below %d: %v", row.pid, row.ancestor, got)
		}
	}
}

func TestParseHeap(t *testing.T) {
	t.Parallel()
	got, err := parseHeap("heap profile: 1: 2 [3: 4] @ heap/1048576\n\n# runtime.MemStats\n# Alloc = 7\n# HeapAlloc = 12345\n# HeapSys = 9\n")
	if err != nil || got != 12345 {
		t.Errorf("%d %v", got, err)
	}
	for _, text := range []string{"", "\n# HeapAlloc = many\n"} {
		if got, err := parseHeap(text); err == nil {
			t.Errorf("%q: %d and no error", text, got)
		}
	}
}
