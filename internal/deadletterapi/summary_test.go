package deadletterapi

import (
	"runtime"
	"strconv"
	"strings"
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

// A value that a requirement of the header cannot name is not shown as if it could. A list is not a missing header.
func TestSummaryOfValuesWithoutText(t *testing.T) {
	t.Parallel()
	binary, list, none := parked("n", "\xff\x00"), parked("n", []any{"a"}), parked("other", "a")
	c := newCounter("n")
	for _, message := range []*amqp.Delivery{&binary, &list, &none} {
		c.add(orders.Read(message))
	}
	groups, _ := c.largest()
	topologytest.Equal(t, "groups", []v1alpha1.Group{
		{Reason: "Parked", Queue: "orders", Value: new("/wA="), ValueInexact: true, Count: 1, SampleID: deadletter.Fingerprint(&binary)},
		{Reason: "Parked", Queue: "orders", Value: new(""), ValueInexact: true, Count: 1, SampleID: deadletter.Fingerprint(&list)},
		{Reason: "Parked", Queue: "orders", Count: 1, SampleID: deadletter.Fingerprint(&none)},
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

// Values that begin alike are different groups, also if they are too long to show.
func TestSummaryOfLongValues(t *testing.T) {
	t.Parallel()
	whole := strings.Repeat("é", maxValueBytes/2)
	longer, other, binary := parked("n", whole+"1"), parked("n", whole+"2"), parked("n", strings.Repeat("\xff", maxValueBytes+1))
	exact := parked("n", whole)
	c := newCounter("n")
	for _, message := range []*amqp.Delivery{&longer, &longer, &longer, &other, &other, &binary, &exact} {
		c.add(orders.Read(message))
	}
	groups, others := c.largest()
	topologytest.Equal(t, "others", int64(0), others)
	topologytest.Equal(t, "groups", []v1alpha1.Group{
		{Reason: "Parked", Queue: "orders", Value: &whole, ValueInexact: true, Count: 3, SampleID: deadletter.Fingerprint(&longer)},
		{Reason: "Parked", Queue: "orders", Value: &whole, ValueInexact: true, Count: 2, SampleID: deadletter.Fingerprint(&other)},
		{
			Reason: "Parked", Queue: "orders", Value: new(text(strings.Repeat("\xff", maxValueBytes))), ValueInexact: true, Count: 1,
			SampleID: deadletter.Fingerprint(&binary),
		},
		{Reason: "Parked", Queue: "orders", Value: &whole, Count: 1, SampleID: deadletter.Fingerprint(&exact)},
	}, groups)
}

// Long headers do not make the memory large: neither the value that forms groups nor the queue that a message claims to come from.
func TestSummaryOfLongHeadersTakesLittleMemory(t *testing.T) { //nolint:paralleltest // it measures the memory of the process
	const messages, length, most = 300, 100 << 10, 4 << 20
	c := newCounter("n")
	before := heap()
	for i := range messages {
		message := parked("n", strconv.Itoa(i)+strings.Repeat("n", length))
		message.Headers["x-failure-queue"] = strconv.Itoa(i) + strings.Repeat("q", length)
		c.add(orders.Read(&message))
	}
	kept := heap() - before
	topologytest.Equal(t, "groups", messages, len(c.groups))
	if kept > most {
		t.Errorf("keeps %d MiB", kept>>20)
	}
}

// heap returns the memory that is in use, in bytes.
func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
