package deadletterapi

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/rabbit/mover"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// left returns how much time a context leaves; zero if it has no limit.
func left(ctx context.Context) time.Duration {
	deadline, limited := ctx.Deadline()
	if !limited {
		return 0
	}
	return time.Until(deadline)
}

// browseLimit records how long the last browse may take.
type browseLimit struct {
	brokers.Mover

	last time.Duration
}

func (b *browseLimit) Browse(ctx context.Context, cluster string, config mover.BrowseConfig) (mover.Browsed, error) {
	b.last = left(ctx)
	return b.Mover.Browse(ctx, cluster, config)
}

// A browse hides messages from consumers, and a client waits for its answer.
func TestABrowseHasATimeLimit(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{"counts": "/orders", "messages": "/orders/messages"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // a busy machine takes some of the time
				w := newWorld(t, `{}`, unchanged)
				found, _, err := w.handler.finder.Find(t.Context(), controllertest.Orders)
				topologytest.Equal(t, "error of Find", nil, err)
				limit := &browseLimit{Mover: found.Broker.Mover}
				found.Broker.Mover = limit
				topologytest.Equal(t, "code", http.StatusOK, w.get(ofShop+path, "", &v1alpha1.Seen{}).StatusCode)
				topologytest.Equal(t, "time for the browse", 30*time.Second, limit.last)
			})
		})
	}
}

// The API server may not answer. An export asks it again before each browse, and has no time limit of its own.
func TestAReviewHasATimeLimit(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{"counts": "/orders", "messages": "/orders/messages", "an export": "/orders/export"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // a busy machine takes some of the time
				w := newWorld(t, `{}`, unchanged)
				authorize := w.handler.authorize
				var first, again time.Duration
				w.handler.authorize = func(
					ctx context.Context, r *http.Request, asked attributes,
				) (sender, func(context.Context) error, error) {
					first = left(ctx)
					user, review, err := authorize(ctx, r, asked)
					return user, func(ctx context.Context) error {
						again = left(ctx)
						return review(ctx)
					}, err
				}
				topologytest.Equal(t, "code", http.StatusOK, w.get(ofShop+path, "", &v1alpha1.Seen{}).StatusCode)
				topologytest.Equal(t, "time for the first review", 10*time.Second, first)
				topologytest.Equal(t, "time for the review before the browse", 10*time.Second, again)
			})
		})
	}
}

// A client needs no permission to occupy a slot for connections, which other clients of its address share.
func TestTheServerLimitsItsClients(t *testing.T) {
	t.Parallel()
	serving := (&server{handler: &Handler{}}).serving(t.Context())
	for name, test := range map[string]struct{ want, got any }{
		"ReadHeaderTimeout, for a client that never ends its headers or TLS handshake": {10 * time.Second, serving.ReadHeaderTimeout},
		"ReadTimeout, for a client that never ends its request":                        {10 * time.Second, serving.ReadTimeout},
		"WriteTimeout, for a client that receives nothing":                             {10 * time.Second, serving.WriteTimeout},
		"IdleTimeout, for a client that sends no further request":                      {10 * time.Second, serving.IdleTimeout},
		"MaxHeaderBytes, for headers that would need much memory":                      {64 << 10, serving.MaxHeaderBytes},
	} {
		topologytest.Equal(t, name, test.want, test.got)
	}
}
