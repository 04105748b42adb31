package deadletterapi

import (
	"strconv"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/internal/deadletter"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// parked is a parked message with a header.
func parked(header string, value any) amqp.Delivery {
	return amqp.Delivery{Headers: amqp.Table{header: value, "x-failure-queue": "orders"}}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	early, late := rejected("1"), rejected("2")
	late.Headers["x-death"].([]any)[0].(amqp.Table)["time"] = died.Add(time.Hour)
	late.Headers["x-warren-redrive-count"] = int64(1)
	acme, other := parked("tenant", "acme"), parked("tenant", int64(7))
	c := newCounter("tenant")
	for _, message := range []*amqp.Delivery{&acme, &late, &early, &other} {
		c.add(orders.Read(message))
	}
	groups, others := c.largest()
	topologytest.Equal(t, "others", int64(0), others)
	topologytest.Equal(t, "groups", []v1alpha1.Group{
		{
			Reason: "Rejected", Queue: "orders", Count: 2, Redriven: 1, SampleID: deadletter.Fingerprint(&late),
			Oldest: new(metav1.NewTime(died)), Newest: new(metav1.NewTime(died.Add(time.Hour))),
		},
		{Reason: "Parked", Queue: "orders", Value: new("acme"), Count: 1, SampleID: deadletter.Fingerprint(&acme)},
		{Reason: "Parked", Queue: "orders", Value: new("7"), Count: 1, SampleID: deadletter.Fingerprint(&other)},
	}, groups)
}

// A header with a different value on each message makes neither the response nor the memory large.
func TestSummaryOfManyGroups(t *testing.T) {
	t.Parallel()
	c := newCounter("n")
	for i := range maxCountedGroups + 5 {
		message := parked("n", strconv.Itoa(i))
		c.add(orders.Read(&message))
	}
	groups, others := c.largest()
	topologytest.Equal(t, "groups", maxGroups, len(groups))
	topologytest.Equal(t, "kept", maxCountedGroups, len(c.groups))
	topologytest.Equal(t, "others", int64(maxCountedGroups+5-maxGroups), others)
}
