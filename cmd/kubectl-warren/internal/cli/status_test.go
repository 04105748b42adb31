package cli

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// emptyWatches is a server that accepts each watch and ends it immediately.
type emptyWatches struct {
	client.WithWatch

	count int
}

func (s *emptyWatches) Watch(context.Context, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
	s.count++
	return watch.NewEmptyWatch(), nil
}

func TestStatusDoesNotWatchAServerThatEndsEachWatchInALoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &emptyWatches{}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		command := &statusCommand{cluster: newCluster(genericiooptions.IOStreams{Out: io.Discard, ErrOut: io.Discard})}
		if err := command.follow(ctx, session{WithWatch: server}, "1", nil); err != nil {
			t.Error(err)
		}
		if server.count > 31 {
			t.Errorf("%d watches within a minute", server.count)
		}
	})
}
