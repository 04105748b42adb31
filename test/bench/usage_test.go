package main

import (
	"testing"
	"time"
)

func TestParseProcess(t *testing.T) {
	t.Parallel()
	const rest = " S 7 7 7 0 -1 4194560 9 0 0 0 150 25 3 4 20 0 1 0 100 2 3"
	for _, row := range []struct {
		text string
		want processStat
	}{
		{"42 (etcd)" + rest, processStat{42, 7, "etcd", 1750 * time.Millisecond}},
		{"42 (a (b) c)" + rest, processStat{42, 7, "a (b) c", 1750 * time.Millisecond}},
	} {
		if got, err := parseProcess(row.text); err != nil || got != row.want {
			t.Errorf("%s: %+v %v, not %+v", row.text, got, err, row.want)
		}
	}
	for _, text := range []string{"", "42 (etcd", "42 (etcd) S 7", "x (etcd)" + rest} {
		if got, err := parseProcess(text); err == nil {
			t.Errorf("%q: %+v and no error", text, got)
		}
	}
}

func TestBelow(t *testing.T) {
	t.Parallel()
	all := map[int]processStat{1: {pid: 1}, 2: {pid: 2, parent: 1}, 3: {pid: 3, parent: 2}, 4: {pid: 4, parent: 1}}
	for _, row := range []struct {
		pid, ancestor int
		want          bool
	}{{3, 2, true}, {3, 1, true}, {2, 2, true}, {4, 2, false}, {2, 3, false}, {9, 1, false}} {
		if got := below(all, row.pid, row.ancestor); got != row.want {
			t.Errorf("%d below %d: %v", row.pid, row.ancestor, got)
		}
	}
}

func TestParseMachineCPU(t *testing.T) {
	t.Parallel()
	got, err := parseMachineCPU("cpu  100 10 50 9000 800 5 15 70 0 0\ncpu0 1 1 1 1 1 1 1\n")
	if want := 1800 * time.Millisecond; err != nil || got != want {
		t.Errorf("%v %v, not %v", got, err, want)
	}
	for _, text := range []string{"", "intr 5", "cpu 1 2 3", "cpu a b c d e f g"} {
		if got, err := parseMachineCPU(text); err == nil {
			t.Errorf("%q: %v and no error", text, got)
		}
	}
}

func TestKilobytes(t *testing.T) {
	t.Parallel()
	const text = "VmPeak:\t  999 kB\nVmHWM:\t  61440 kB\nVmRSS:\t  50000 kB\n"
	if got, err := kilobytes(text, "VmHWM:"); err != nil || got != 60<<20 {
		t.Errorf("%d %v, not 60 MiB", got, err)
	}
	for _, name := range []string{"HWM:", "VmSwap:"} {
		if got, err := kilobytes(text, name); err == nil {
			t.Errorf("%s: %d and no error", name, got)
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
