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

// sliceSeconds is how long one CPU profile is: how long a phase takes is not known before. `go tool pprof` puts several together.
const sliceSeconds = 5

// profile has CPU profiles of the manager taken until the returned function is called, and then one of its memory. Files are
// named by number of ConsumerQueues, layout and phase.
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
			select { // the manager is being started
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

// noteHeap adds to a row how much memory the manager has in use once garbage is collected.
func (w *world) noteHeap(ctx context.Context, r *row) error {
	content, err := get(ctx, "http://"+w.profiles+"/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return fmt.Errorf("read the heap of the manager: %w", err)
	}
	bytes, err := parseHeap(string(content))
	r.note += fmt.Sprintf("; live heap %.1f MiB", float64(bytes)/(1<<20))
	return err
}

// parseHeap reads how many bytes are in use out of a profile of the heap in its form as text.
func parseHeap(text string) (int64, error) {
	_, after, found := strings.Cut(text, "\n# HeapAlloc = ")
	number, _, _ := strings.Cut(after, "\n")
	if !found {
		return 0, errors.New("the profile does not tell how much of the heap is in use")
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
