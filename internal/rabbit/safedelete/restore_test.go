package safedelete_test

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/safedelete"
	"github.com/warren-mq/warren/test/amqpmethod"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/netfault"
	"github.com/warren-mq/warren/test/rabbittest"
)

// The connection is lost after the request to delete a queue, and RabbitMQ deletes the queue later. Warren declares the queue again after
// that, or not at all, and no message that the queue accepted is lost.
func TestADeletionThatIsNotAnswered(t *testing.T) {
	t.Parallel()
	for name, early := range map[string]bool{"while Warren waits for it": true, "later": false} {
		t.Run("ends "+name, func(t *testing.T) {
			rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
				queues := tierAndMain(vh, "orders")
				tier := queues[0]
				vh.DeclareExchange("retry", "direct", nil)
				vh.Bind("retry", tier, "k", nil)
				var settled, sent atomic.Bool
				proxy := netfault.NewFrameProxy(t, vh.Broker.AMQPURI, func(frame netfault.Frame) netfault.Verdict {
					if frame.Method == amqpmethod.QueueDelete && settled.Load() && sent.CompareAndSwap(false, true) {
						return netfault.Strand
					}
					return netfault.Pass
				})
				config := rabbittest.ConfigOf(vh)
				config.AMQPURI = proxy.URI
				connection := rabbittest.Connected(t, config, nil)
				connection.Deleter.Crash = func(step string) bool {
					settled.CompareAndSwap(false, step == safedelete.StepSettled)
					return true
				}
				deleted := make(chan error, 1)
				go func() {
					err := brokererr.ErrUnproven
					for errors.Is(err, brokererr.ErrUnproven) && !sent.Load() { // the broker was too busy for the proof
						err = deleteNow(t.Context(), connection, queues...)
					}
					deleted <- err
				}()
				g := NewWithT(t)
				g.Eventually(sent.Load).WithTimeout(rabbittest.Within).Should(BeTrue())
				if early {
					rabbittest.IsConnected(t, connection) // so that it sees the deletion of the queue
					proxy.Release()
				}
				err := <-deleted
				rabbittest.MustBe(t, err, brokererr.ErrUnreachable)
				restored := strings.Contains(err.Error(), `deleted queues are declared again: "`+tier+`"`)
				confirmed := newBurster(t, vh, tier).burst(t.Context(), "after the deletion", 1)
				if !early {
					proxy.Release()
				}
				if !early || !restored {
					rabbittest.MustBe(t, err, brokererr.ErrUnreachable, `RabbitMQ may still be deleting queue "`+tier+`"`)
				}

				g.Eventually(vh.Policies).WithTimeout(rabbittest.Within).WithPolling(100 * time.Millisecond).Should(BeEmpty())
				names := []string{}
				for _, queue := range vh.Definitions().Queues {
					names = append(names, queue.Name)
				}
				// On a busy machine, RabbitMQ may close the connection before it has received the delete.
				neverArrived := strings.Contains(err.Error(), "EOF") && slices.Contains(names, tier)
				if restored || neverArrived {
					g.Expect(names).To(ConsistOf("orders", tier))
					g.Expect(vh.Definitions().Bindings).To(HaveLen(1))
					rabbittest.Holds(t, vh, tier, len(confirmed))
				} else {
					g.Expect(names).To(ConsistOf("orders"), "after %v, with %d messages confirmed", err, len(confirmed))
					g.Expect(confirmed).To(BeEmpty())
				}
			})
		})
	}
}

// A client subscribes while Warren takes the first sentinel out of the queue. The client leaves when Warren has counted it, so that Warren
// can take both sentinels out immediately.
func TestAConsumerThatSubscribesBeforeTheDeletion(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	vh.DeclareQueue("orders", rabbittest.Quorum(nil))
	client, err := vh.Connect("client")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	var settled, subscribed atomic.Bool
	proxy := netfault.NewFrameProxy(t, vh.Broker.AMQPURI, func(frame netfault.Frame) netfault.Verdict {
		switch {
		case frame.Method == amqpmethod.BasicGetOK && settled.Load() && subscribed.CompareAndSwap(false, true):
			channel, err := client.Channel()
			if err == nil {
				_, err = channel.Consume("orders", "", false, false, false, false, nil)
			}
			if err != nil {
				t.Error(err)
			}
		case frame.Method == amqpmethod.QueueDeclareOK && subscribed.Load():
			_ = client.Close()
		}
		return netfault.Pass
	})
	config := rabbittest.ConfigOf(vh)
	config.AMQPURI = proxy.URI
	connection := rabbittest.Connected(t, config, nil)
	connection.Deleter.Crash = func(step string) bool {
		settled.Store(step == safedelete.StepSettled)
		return true
	}
	err = untilProved(brokererr.ErrUnproven, func() error {
		if subscribed.Load() {
			return brokererr.ErrNotEmpty
		}
		return connection.DeleteEmpty(t.Context(), connection.Health().Cluster.Key(), []string{"orders"}, nil)
	})
	rabbittest.MustBe(t, err, brokererr.ErrNotEmpty, `queue "orders" has 1 consumer`)
	rabbittest.Holds(t, vh, "orders", 0)
	mustBeClean(t, vh)
}
