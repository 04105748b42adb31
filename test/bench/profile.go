package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// sliceSeconds is the length of one CPU profile, because the length of a phase is not known in advance. `go tool pprof` merges several.
const sliceSeconds = 5

// profile takes CPU profiles of the manager until the returned function is called, and then one of its memory. File names contain
// the number of ConsumerQueues, the layout and the phase.
func (w *world) profile(ctx context.Context, phase string) (stop func()) {
	if w.given.profiles == "" || w.profiles == "" {
		return func() {}
	}
	phase = strings.NewReplacer(" ", "-", ",", "").Replace(phase)
	prefix := filepath.Join(w.given.profiles, fmt.Sprintf("%05d-%s-%s", w.count, w.layout.name, phase))
	running, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for number := 1; running.Err() == nil; {
			err := w.save(ctx, fmt.Sprintf("profile?seconds=%d", sliceSeconds), fmt.Sprintf("%s-cpu-%03d.pb.gz", prefix, number))
			if err == nil {
				number++
				continue
			}
			select { // the manager is starting
			case <-running.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return func() {
		cancel()
		<-ended
		if err := w.save(ctx, "heap", prefix+"-heap.pb.gz"); err != nil {
			progress("%v", err)
		}
	}
}

// noteHeap adds the manager's heap in use after a garbage collection to a row.
func (w *world) noteHeap(ctx context.Context, r *row) error {
	content, err := get(ctx, "http://"+w.profiles+"/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return fmt.Errorf("read the heap of the manager: %w", err)
	}
	bytes, err := parseHeap(string(content))
	r.note += fmt.Sprintf("; live heap %.1f MiB", float64(bytes)/(1<<20))
	return err
}

// parseHeap returns the bytes in use from a heap profile in text format.
func parseHeap(text string) (int64, error) {
	_, after, found := strings.Cut(text, "\n# HeapAlloc = ")
	number, _, _ := strings.Cut(after, "\n")
	if !found {
		return 0, errors.New("the profile does not contain the size of the heap in use")
	}
	return strconv.ParseInt(number, 10, 64)
}

// save writes a profile to a file.
func (w *world) save(ctx context.Context, name, path string) error {
	content, err := get(ctx, "http://"+w.profiles+"/debug/pprof/"+name)
	if err != nil {
		return fmt.Errorf("profile the manager: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}
