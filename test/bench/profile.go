package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// sliceSeconds is how long one CPU profile is: how long a phase takes is not known before. `go tool pprof` puts several together.
const sliceSeconds = 5

// profile has CPU profiles of the manager taken until the returned function is called, and then one of its memory. Files are
// named by number of ConsumerQueues, layout and phase.
func (w *world) profile(ctx context.Context, phase string) (stop func()) {
	if w.profiles == "" {
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
