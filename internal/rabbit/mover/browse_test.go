package mover

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/test/amqpmethod"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/netfault"
)

// browseSource browses the source, with a changed BrowseConfig, and returns the bodies that it saw.
func browseSource(ctx context.Context, t *testing.T, vh *brokers.VHost, change func(*BrowseConfig)) ([]string, Browsed, error) {
	t.Helper()
	seen := []string{}
	config := BrowseConfig{
		Dial: dialer(t, vh, vh.Broker.AMQPURI), Errs: brokererr.Errors{VHost: vh.Name}, Log: testr.New(t), Queue: source, MaxMessages: 100_000,
		Visit: func(_ int, message *amqp.Delivery) bool {
			seen = append(seen, string(message.Body))
			return true
		},
	}
	change(&config)
	found, err := Browse(ctx, config)
	return seen, found, err
}

// Each browse sees the same messages and leaves them in the same order, even if it takes fewer messages than an earlier browse.
func TestBrowse(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		const messages = 2500
		vh.Publish("", source, bodies(messages)...)
		for _, most := range []int{1, 20, 1200, 30, 100_000, 700, 10} {
			for range 2 {
				seen, found, err := browseSource(t.Context(), t, vh, func(c *BrowseConfig) { c.MaxMessages = most })
				topologytest.Equal(t, "error", nil, err)
				topologytest.Equal(t, "found", Browsed{Ready: messages, Examined: min(most, messages)}, found)
				topologytest.Equal(t, "seen", bodies(messages)[:min(most, messages)], seen)
			}
		}
		topologytest.Equal(t, "source", bodies(messages), drained(t, vh, source, messages))
	})
}

// dialUncounted returns a Dial for one browse. It makes the source a queue that is too busy to count: the queue reports no messages at the
// beginning, and 50 messages arrive right after the count.
func dialUncounted(t *testing.T, vh *brokers.VHost) func(context.Context) (*amqpconn.Conn, error) {
	t.Helper()
	var filled atomic.Bool
	proxy := netfault.NewFrameProxy(t, vh.Broker.AMQPURI, func(frame netfault.Frame) netfault.Verdict {
		if frame.Method == amqpmethod.QueueDeclareOK && filled.CompareAndSwap(false, true) {
			vh.Publish("", source, bodies(50)...)
		}
		return netfault.Pass
	})
	return dialer(t, vh, proxy.URI)
}

func TestBrowseOfAQueueThatWasNotCounted(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		seen, found, err := browseSource(t.Context(), t, vh, func(c *BrowseConfig) {
			c.MaxMessages, c.Dial = 20, dialUncounted(t, vh)
		})
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "found", Browsed{Ready: 50, Examined: 20}, found)
		topologytest.Equal(t, "seen", bodies(20), seen)

		vh.Purge(source)
		_, found, err = browseSource(t.Context(), t, vh, func(c *BrowseConfig) {
			c.MaxMessages, c.Dial, c.Visit = 1000, dialUncounted(t, vh), func(int, *amqp.Delivery) bool { return false }
		})
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "found by a browse of one message", Browsed{Ready: 50, Examined: 1}, found)
	})
}

// A browse that has held messages for as long as is safe returns them, and its error says that it has not seen all. Here it waits for
// more messages than there are.
func TestABrowseThatHoldsMessagesForTooLong(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		_, _, err := browseSource(t.Context(), t, vh, func(c *BrowseConfig) { c.Dial, c.limit = dialUncounted(t, vh), time.Nanosecond })
		if !errors.Is(err, ErrHeldTooLong) {
			t.Errorf("got %v", err)
		}
		topologytest.Equal(t, "source", bodies(50), drained(t, vh, source, 50))
	})
}

// Messages stay in their order after any number of browses of any depth. With the default delivery limit of RabbitMQ 4, a queue would
// drop a message at the 21st browse.
func TestManyBrowses(t *testing.T) {
	deadline.InTestAll(t)
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, bodies(200)...)
		for round := range 24 {
			most := []int{10, 200, 1, 100}[round%4]
			seen, found, err := browseSource(t.Context(), t, vh, func(c *BrowseConfig) { c.MaxMessages = most })
			topologytest.Equal(t, "error", nil, err)
			topologytest.Equal(t, "found", Browsed{Ready: 200, Examined: min(most, 200)}, found)
			topologytest.Equal(t, "seen", bodies(200)[:most], seen)
		}
		topologytest.Equal(t, "source", bodies(200), drained(t, vh, source, 200))
	})
}

// A queue reports that it is empty while its messages are in flight. They arrive before the answer to a question on their channel.
func TestBrowseWhileDeliveriesAreOnTheirWay(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, bodies(10)...) // fewer than firstPrefetch
		var proxy *netfault.FrameProxy
		var release sync.Once
		var channel atomic.Uint32 // of the deliveries
		proxy = netfault.NewFrameProxy(t, vh.Broker.AMQPURI, func(f netfault.Frame) netfault.Verdict {
			switch {
			case f.Method == amqpmethod.BasicDeliver:
				channel.Store(uint32(f.Channel))
				return netfault.Hold
			case f.Method == amqpmethod.QueueDeclare && uint32(f.Channel) == channel.Load():
				go release.Do(proxy.Release)
			}
			return netfault.Pass
		})
		seen, found, err := browseSource(t.Context(), t, vh, func(c *BrowseConfig) { c.Dial = dialer(t, vh, proxy.URI) })
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "found", Browsed{Ready: 10, Examined: 10}, found)
		topologytest.Equal(t, "seen", bodies(10), seen)
	})
}

// Browses during a move lose no messages, and no message is moved twice.
func TestBrowsesBesideAMove(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		const messages = 4000
		vh.Publish("", source, bodies(messages)...)
		var browses atomic.Int32
		moving := start(t, vh, func(c *Config) {
			c.Settings = func() Settings {
				if browses.Load() < 2 { // otherwise the move could end before the second browse
					return Settings{Rate: 100, MaxDepth: -1}
				}
				return Settings{MaxDepth: -1}
			}
		})
		for browses.Load() < 2 || moving.Progress().Moved < messages/2 {
			_, _, err := browseSource(t.Context(), t, vh, func(c *BrowseConfig) { c.MaxMessages = 50 })
			topologytest.Equal(t, "error", nil, err)
			browses.Add(1)
		}
		progress, err := moving.Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "moved", messages, progress.Moved)
		NewWithT(t).Expect(drained(t, vh, destination, messages)).To(WithTransform(ordered, Equal(ordered(bodies(messages)))))
	})
}

// ordered returns the texts in lexical order.
func ordered(texts []string) []string { return slices.Sorted(slices.Values(texts)) }

func TestBrowseAtAnEmptyQueue(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		seen, found, err := browseSource(t.Context(), t, vh, func(*BrowseConfig) {})
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "found", Browsed{}, found)
		topologytest.Equal(t, "seen", []string{}, seen)
	})
}

func TestBrowseThatHasSeenEnough(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, bodies(1000)...)
		seen := 0
		_, _, err := browseSource(t.Context(), t, vh, func(c *BrowseConfig) {
			c.Visit = func(int, *amqp.Delivery) bool {
				seen++
				return seen < 30
			}
		})
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "seen", 30, seen)
		topologytest.Equal(t, "source", bodies(1000), drained(t, vh, source, 1000))
	})
}

// When its context ends, a browse returns the messages immediately.
func TestBrowseThatIsStopped(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, bodies(1000)...)
		ctx, stop := context.WithCancel(t.Context())
		_, _, err := browseSource(ctx, t, vh, func(c *BrowseConfig) {
			c.Visit = func(int, *amqp.Delivery) bool {
				stop()
				return true
			}
		})
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "source", bodies(1000), drained(t, vh, source, 1000))
	})
}

// A browse cannot see messages that another consumer holds, and does not wait for them.
func TestBrowseBesideAConsumer(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, bodies(10)...)
		holding(t, vh, source, 4)
		began := time.Now()
		seen, found, err := browseSource(t.Context(), t, vh, func(*BrowseConfig) {})
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "found", Browsed{Ready: 6, Examined: 6, Consumers: 1}, found)
		topologytest.Equal(t, "seen", bodies(10)[4:], seen)
		if took := time.Since(began); took > within {
			t.Errorf("the browse took %v", took)
		}
	})
}

func TestBrowseOfAMissingQueue(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		_, _, err := browseSource(t.Context(), t, vh, func(c *BrowseConfig) { c.Queue = "absent" })
		if !errors.Is(err, brokererr.ErrNotFound) {
			t.Errorf("got %v", err)
		}
	})
}

func TestBrowseAtAnUnreadableMessage(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		publish(t, vh, source, amqp.Publishing{Body: []byte("large"), Headers: amqp.Table{"text": strings.Repeat("x", 131_015)}})
		redeliver(t, vh, source, 1)
		NewWithT(t).Eventually(func() int { return vh.Ready(source) }).WithTimeout(within).Should(Equal(1))
		_, found, err := browseSource(t.Context(), t, vh, func(*BrowseConfig) {})
		if !errors.Is(err, ErrUnreadable) {
			t.Errorf("got %v", err)
		}
		topologytest.Equal(t, "found", Browsed{Ready: 1}, found)
	})
}

// When the network fails, the browse blames no message, and all messages return to the queue.
func TestBrowseWhoseConnectionIsCut(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, bodies(1000)...)
		proxy := netfault.NewProxy(t, vh.Broker.AMQPURI)
		_, _, err := browseSource(t.Context(), t, vh, func(c *BrowseConfig) {
			c.Dial = dialer(t, vh, proxy.URI)
			c.Visit = func(int, *amqp.Delivery) bool {
				proxy.Cut()
				return true
			}
		})
		if !errors.Is(err, brokererr.ErrUnreachable) {
			t.Errorf("got %v", err)
		}
		topologytest.Equal(t, "source", bodies(1000), drained(t, vh, source, 1000))
	})
}

// A dry run that begins during a browse takes messages that the browse has not seen yet, and holds them until its own end.
func TestABrowseBesideADryRunThatBeginsLater(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		const messages = 600
		vh.Publish("", source, bodies(messages)...)
		var counting *run
		seen, found, err := browseSource(t.Context(), t, vh, func(c *BrowseConfig) {
			visit := c.Visit
			c.Visit = func(position int, message *amqp.Delivery) bool {
				if counting == nil {
					counting = start(t, vh, func(c *Config) { c.DryRun, c.Total = true, messages })
					NewWithT(t).Eventually(func() int { return counting.Progress().Moved }).WithTimeout(within).Should(BeNumerically(">", 0))
				}
				return visit(position, message)
			}
		})
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "ready at the beginning", messages, found.Ready)
		topologytest.Equal(t, "seen or missed", messages, len(seen)+found.Unseen)
		if found.Unseen == 0 {
			t.Error("the browse says that it has seen all messages")
		}
		_, err = counting.Wait()
		topologytest.Equal(t, "error of the dry run", nil, err)
	})
}

// A paused move takes no message behind the messages that a browse holds, so all messages retain their order. The move holds
// the messages that the browse does not see.
func TestABrowseBesideAMoveThatPauses(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		const messages = 1000
		vh.Publish("", source, bodies(messages)...)
		var paused atomic.Bool
		moving := start(t, vh, func(c *Config) {
			c.Filter, c.Selective = toDestination{skip: odd}, true
			c.Settings = func() Settings { return Settings{Rate: 250, MaxDepth: -1, Paused: paused.Load()} }
		})
		for range 3 {
			before := moving.Progress().Moved
			NewWithT(t).Eventually(func() int { return moving.Progress().Moved }).WithTimeout(within).Should(BeNumerically(">", before+60))
			paused.Store(true)
			seen, _, err := browseSource(t.Context(), t, vh, func(*BrowseConfig) {})
			topologytest.Equal(t, "error of a browse", nil, err)
			topologytest.Equal(t, "seen", bodies(messages)[messages-len(seen):], seen)
			NewWithT(t).Expect(moving.Progress().Held).To(BeNumerically(">=", messages/2-len(seen)), "held, including the messages that stay")
			paused.Store(false)
		}
		progress, err := moving.Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "moved", messages/2, progress.Moved)
		topologytest.Equal(t, "held at the end", 0, progress.Held)
		var even, stay []string
		for i, body := range bodies(messages) {
			if i%2 == 0 {
				even = append(even, body)
			} else {
				stay = append(stay, body)
			}
		}
		topologytest.Equal(t, "destination", even, drained(t, vh, destination, messages/2))
		topologytest.Equal(t, "source", stay, drained(t, vh, source, messages/2))
	})
}

// A browse counts a consumer that starts during the browse, even if the consumer receives none of the wanted messages.
func TestABrowseTellsOfConsumersThatComeLater(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, bodies(5)...)
		_, found, err := browseSource(t.Context(), t, vh, func(c *BrowseConfig) {
			visit := c.Visit
			c.Visit = func(position int, message *amqp.Delivery) bool {
				if string(message.Body) == bodies(5)[4] {
					holding(t, vh, source, 0)
				}
				return visit(position, message)
			}
		})
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "found", Browsed{Ready: 5, Examined: 5, Consumers: 1}, found)
	})
}
