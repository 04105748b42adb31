package deadletterapi

import (
	"testing"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/internal/rabbit/mover"
	"github.com/warren-mq/warren/internal/topology/topologytest"
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
