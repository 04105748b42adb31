package deadletterapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/controller/deadletterjob"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/rabbit/mover"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// A response is complete only if the browse cannot have missed a message.
func TestWhyABrowseIsPartial(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		browsed         mover.Browsed
		enough, delayed bool
		want            v1alpha1.PartialReason
	}{
		"all of them":                           {browsed: mover.Browsed{Ready: 10}},
		"an empty queue":                        {},
		"a consumer":                            {browsed: mover.Browsed{Ready: 10, Consumers: 1}, want: v1alpha1.PartialHeldByConsumers},
		"a consumer that holds all":             {browsed: mover.Browsed{Consumers: 1}, want: v1alpha1.PartialHeldByConsumers},
		"a consumer that unsubscribed again":    {browsed: mover.Browsed{Ready: 10, Unseen: 4}, want: v1alpha1.PartialHeldByConsumers},
		"more than are examined":                {browsed: mover.Browsed{Ready: 11}, want: v1alpha1.PartialDepth},
		"more, and the page is full":            {browsed: mover.Browsed{Ready: 11}, enough: true},
		"a consumer, and the page is full":      {browsed: mover.Browsed{Ready: 11, Consumers: 1}, enough: true, want: v1alpha1.PartialHeldByConsumers},
		"a message that is too large":           {browsed: mover.Browsed{Ready: 10, TooLarge: 1}, want: v1alpha1.PartialTooLarge},
		"a queue that delays returned messages": {browsed: mover.Browsed{Ready: 10}, delayed: true, want: v1alpha1.PartialDelayed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topologytest.Equal(t, "reason", test.want, partialReason(test.browsed, 10, test.enough, test.delayed))
		})
	}
}

// A browse that runs out of time is partial, and neither complete nor failed.
func TestABrowseThatRunsOutOfTime(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		path   string
		ends   time.Time // when the time of the request is over
		broker error
	}{
		"messages were held for too long":              {path: "/orders/messages", ends: time.Now().Add(time.Hour), broker: mover.ErrHeldTooLong},
		"messages of an export were held for too long": {path: "/orders/export", ends: time.Now().Add(time.Hour), broker: mover.ErrHeldTooLong},
		"the time of the request is over":              {path: "/orders/messages", ends: time.Now()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, `{}`, unchanged)
			w.broker.SetDeadLetters("orders.dlq", amqp.Delivery{})
			w.broker.Fail(vhost.QueueID("orders.dlq"), test.broker)
			ctx, cancel := context.WithDeadline(t.Context(), test.ends)
			defer cancel()
			recorder := httptest.NewRecorder()
			w.handler.routes().ServeHTTP(recorder, httptest.NewRequestWithContext(ctx, http.MethodGet, ofShop+test.path, http.NoBody))
			seen := v1alpha1.Seen{} // of a list, or of the last line of an export
			topologytest.Equal(t, "error of the response", nil, json.Unmarshal(recorder.Body.Bytes(), &seen))
			topologytest.Equal(t, "seen", v1alpha1.Seen{Partial: true, PartialReason: v1alpha1.PartialTime}, seen)
		})
	}
}

// The browse of a failed request ends, too.
func TestBrowsesEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `{}`, unchanged)
	w.broker.SetDeadLetters("orders.dlq", amqp.Delivery{})
	w.broker.Fail(vhost.QueueID("orders.dlq"), errors.New("no connection"))
	topologytest.Equal(t, "refusal", refusal{503, metav1.StatusReasonServiceUnavailable, `queue "orders.dlq": no connection`, "1"},
		w.refusal(ofShop+"/orders/messages"))
	topologytest.Equal(t, "running", 0, w.handler.browses.inAll)
	topologytest.Equal(t, "answers", 0, w.handler.answers.inAll)
}

// A browse waits for a job that holds messages of the same queue, and names the job if this takes too long.
func TestABrowseWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &Handler{users: &deadletterjob.Register{}}
		found := deadletterjob.Queue{
			ConsumerQueue: controllertest.InSync(t, `{}`), Names: topology.QueueNames{Queue: "orders.dlq"},
			Location: ownership.Location{Cluster: vhost.Cluster{Name: "a"}, VHost: "/"},
		}
		again := deadletterjob.Key{Kind: "Redrive", ObjectKey: client.ObjectKey{Namespace: "shop", Name: "again"}}
		job := h.users.Join(again, found.Key(), func() {})
		_, err := h.takeTurn(t.Context(), found, false)
		topologytest.Equal(t, "too many", true, apierrors.IsTooManyRequests(err))
		topologytest.Equal(t, "error", `Redrive "again" takes messages from queue "orders.dlq". Suspend the Redrive, or try again when it has ended`, err.Error())
		seconds, _ := apierrors.SuggestsClientDelay(err)
		topologytest.Equal(t, "seconds to wait for a job", retryLater, seconds)
		job.AdmitBrowses(func() int { return 7 })
		entry, err := h.takeTurn(t.Context(), found, false)
		topologytest.Equal(t, "error when the job admits browses", nil, err)
		held, _ := entry.HeldByJob()
		topologytest.Equal(t, "held by the job", 7, held)
		entry.Leave()
		_, err = h.takeTurn(t.Context(), found, true)
		topologytest.Equal(t, "an export is still too many", true, apierrors.IsTooManyRequests(err))
		time.AfterFunc(time.Second, job.Leave)
		entry, err = h.takeTurn(t.Context(), found, true)
		topologytest.Equal(t, "error when the job has ended in time", nil, err)
		entry.Leave()
		entry, err = h.takeTurn(t.Context(), found, false)
		topologytest.Equal(t, "error of a queue without users", nil, err)
		entry.Leave()
	})
}
