package main

import (
	"os"
	"testing"
)

// The machine's CPU time includes the time of this process.
func TestNow(t *testing.T) {
	t.Parallel()
	m, err := now(os.Getpid(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if m.cpu.machine <= 0 || m.cpu.manager > m.cpu.machine || m.at.IsZero() {
		t.Errorf("%+v", m)
	}
	if peak, err := peakMemory(os.Getpid()); err != nil || peak < 1<<20 {
		t.Errorf("a peak of %d bytes, %v", peak, err)
	}
}
