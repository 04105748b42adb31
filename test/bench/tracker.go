package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// tracker follows the state of all ConsumerQueues with one watch, because listing thousands repeatedly would cost the API server
// more CPU than the measured work.
type tracker struct {
	mutex sync.Mutex
	all   map[string]state // by name
}

// state is the state of a ConsumerQueue.
type state struct {
	generation int64
	ready      bool      // for this generation
	since      time.Time // since when it is ready, or not
	objects    int       // number of objects in its status
}

// startTracker watches until the context ends.
func startTracker(ctx context.Context, server *apiServer) (*tracker, error) {
	watched, err := cache.New(server.Config, cache.Options{Scheme: server.Scheme(), DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		return nil, err
	}
	t := &tracker{all: map[string]state{}}
	go func() { _ = watched.Start(ctx) }() // returns only the error of the context
	informer, err := watched.GetInformer(ctx, &v1alpha1.ConsumerQueue{})
	if err == nil {
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: t.note, UpdateFunc: func(_, object any) { t.note(object) }, DeleteFunc: t.forget,
		})
	}
	if err != nil {
		return nil, fmt.Errorf("watch ConsumerQueues: %w", err)
	}
	return t, nil
}

func (t *tracker) note(object any) {
	cq, is := object.(*v1alpha1.ConsumerQueue)
	if !is {
		return
	}
	ready := cq.Status.ObservedGeneration == cq.Generation && isReady(cq.Status.Conditions)
	found := state{cq.Generation, ready, time.Now(), len(cq.Status.Topology)}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if before, known := t.all[cq.Name]; known && before.ready == found.ready && before.generation == found.generation {
		found.since = before.since
	}
	t.all[cq.Name] = found
}

func (t *tracker) forget(object any) {
	if last, is := object.(toolscache.DeletedFinalStateUnknown); is {
		object = last.Obj
	}
	cq, is := object.(*v1alpha1.ConsumerQueue)
	if !is {
		return
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	delete(t.all, cq.Name)
}

// count returns how many of the existing ConsumerQueues match.
func (t *tracker) count(wanted func(name string, s state) bool) int {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	count := 0
	for name, s := range t.all {
		if wanted(name, s) {
			count++
		}
	}
	return count
}

// of returns the state of one ConsumerQueue.
func (t *tracker) of(name string) state {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.all[name]
}
