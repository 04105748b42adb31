package mover

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/test/amqpmethod"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/netfault"
)

// deleting configures a move to delete messages.
func deleting(change func(*Config)) func(*Config) {
	return func(c *Config) {
		c.Delete, c.Destination, c.Copier = true, "", nil
		change(c)
	}
}

// without returns the bodies except the deleted ones.
func without(count int, gone func(body string) bool) []string {
	return slices.DeleteFunc(bodies(count), gone)
}

func isEven(body string) bool { return odd(body) == "" }

func TestDelete(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		for _, selective := range []bool{false, true} {
			vh.Publish("", source, bodies(1200)...)
			progress, err := start(t, vh, deleting(func(c *Config) { c.Selective, c.Filter = selective, toDestination{skip: odd} })).Wait()
			topologytest.Equal(t, "error", nil, err)
			topologytest.Equal(t, "deleted", 600, progress.Moved)
			topologytest.Equal(t, "unsure", 0, progress.Unsure)
			topologytest.Equal(t, "skipped", map[string]int{"Odd": 600}, progress.Skipped)
			topologytest.Equal(t, "source", without(1200, isEven), drained(t, vh, source, 600))
			holds(t, vh, destination, 0)
		}
	})
}

func TestDeleteAll(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, bodies(2000)...)
		progress, err := start(t, vh, deleting(func(c *Config) { c.Total, c.Limit = 1500, 1500 })).Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "deleted", 1500, progress.Moved)
		topologytest.Equal(t, "what came after the total", bodies(2000)[1500:], drained(t, vh, source, 500))
	})
}

// A dry run comes first, and returns all messages.
func TestDeleteAsManyAsTheLimitAfterACount(t *testing.T) {
	deadline.InTestAll(t)
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, bodies(1200)...)
		counted, err := start(t, vh, deleting(func(c *Config) { c.DryRun, c.Filter = true, toDestination{skip: odd} })).Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "counted", 600, counted.Moved)
		NewWithT(t).Eventually(func() int { return vh.Ready(source) }).WithTimeout(within).Should(Equal(1200))
		progress, err := start(t, vh, deleting(func(c *Config) { c.Limit, c.Moved, c.Filter = 30, 10, toDestination{skip: odd} })).Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "deleted, by an earlier run too", 30, progress.Moved)
		gone := []string{}
		for i := 0; len(gone) < 20; i += 2 {
			gone = append(gone, bodies(1200)[i])
		}
		topologytest.Equal(t, "source", without(1200, func(body string) bool { return slices.Contains(gone, body) }),
			drained(t, vh, source, 1180))
	})
}

// A stopped move reports exactly how many messages it has deleted.
func TestDeleteUntilItIsStopped(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, bodies(2000)...)
		running := start(t, vh, deleting(func(c *Config) {
			c.Settings = func() Settings { return Settings{Rate: 300} }
		}))
		NewWithT(t).Eventually(func() int { return running.Progress().Moved }).WithTimeout(within).Should(BeNumerically(">", 100))
		running.Stop()
		progress, err := running.Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "unsure", 0, progress.Unsure)
		topologytest.Equal(t, "source", bodies(2000)[progress.Moved:], drained(t, vh, source, 2000-progress.Moved))
	})
}

// A count has returned all messages of a slow broker. A stop does not take all of them to keep the order, because the socket would be
// closed before the end. The log says so.
func TestDeleteFromASlowBrokerUntilItIsStopped(t *testing.T) {
	deadline.InTestAll(t)
	each(t, func(t *testing.T, vh *brokers.VHost) {
		const messages = 20_000
		vh.Publish("", source, bodies(messages)...)
		_, err := start(t, vh, deleting(func(c *Config) { c.DryRun = true })).Wait()
		topologytest.Equal(t, "error of the count", nil, err)
		proxy := netfault.NewFrameProxy(t, vh.Broker.AMQPURI, func(frame netfault.Frame) netfault.Verdict {
			if frame.Method == amqpmethod.QueueDeclareOK {
				time.Sleep(500 * time.Millisecond)
			}
			return netfault.Pass
		})
		logged := ""
		running := start(t, vh, deleting(func(c *Config) {
			c.Dial, c.Settings = dialer(t, vh, proxy.URI), func() Settings { return Settings{Rate: 300} }
			c.Log = funcr.New(func(_, line string) { logged += line + "\n" }, funcr.Options{})
		}))
		NewWithT(t).Eventually(func() int { return running.Progress().Moved }).WithTimeout(within).Should(BeNumerically(">", 100))
		running.Stop()
		progress, err := running.Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "unsure", 0, progress.Unsure)
		holds(t, vh, source, messages-progress.Moved)
		NewWithT(t).Expect(logged).To(ContainSubstring("Messages may be out of order"))
	})
}

// The network fails during the move. Which acknowledgements the broker has processed is unknown, so the move ends and
// reports the minimum and the maximum number of deleted messages.
func TestCutWhileMessagesAreDeleted(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		const count = 2000
		for _, test := range []struct{ rate, certain int }{{0, 0}, {2000, 0}, {200, 100}} {
			vh.Purge(source)
			vh.Publish("", source, bodies(count)...)
			proxy := netfault.NewProxy(t, vh.Broker.AMQPURI)
			running := start(t, vh, deleting(func(c *Config) {
				c.Dial, c.Filter, c.Limit = dialer(t, vh, proxy.URI), toDestination{skip: odd}, 800
				c.Settings = func() Settings { return Settings{Rate: test.rate} }
			}))
			NewWithT(t).Eventually(func() bool {
				now := running.Progress()
				return now.Moved > 0 && now.Certain() >= test.certain
			}).WithTimeout(within).WithPolling(time.Millisecond).Should(BeTrue())
			proxy.Cut()
			progress, err := running.Wait()
			if certain := progress.Certain(); certain < test.certain {
				t.Errorf("%d messages were deleted for certain", certain)
			}
			if err == nil { // the move ended before the cut
				topologytest.Equal(t, "deleted", 800, progress.Moved)
				topologytest.Equal(t, "unsure", 0, progress.Unsure)
			} else if !errors.Is(err, ErrInterrupted) {
				t.Errorf("got %v", err)
			}
			NewWithT(t).Eventually(vh.CountedConsumers).WithArguments(source).WithTimeout(within).Should(Equal(0)) // the broker has returned all messages
			var left []string
			NewWithT(t).Eventually(func() int {
				left = append(left, bodiesOf(drain(t, vh, source))...)
				return count - len(left)
			}).WithTimeout(within).Should(And(BeNumerically(">=", progress.Certain()), BeNumerically("<=", progress.Moved)))
			topologytest.Equal(t, "messages that do not match", count/2, len(slices.DeleteFunc(left, isEven)))
		}
	})
}

// The move retries a broker that it cannot reach at first, because it has deleted nothing yet.
func TestADeletionRetriesAnUnreachableBroker(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, bodies(10)...)
		proxy := netfault.NewProxy(t, vh.Broker.AMQPURI)
		proxy.Refuse()
		running := start(t, vh, deleting(func(c *Config) { c.Dial = dialer(t, vh, proxy.URI) }))
		NewWithT(t).Eventually(func() string { return running.Progress().Detail }).WithTimeout(within).ShouldNot(BeEmpty())
		proxy.Accept()
		progress, err := running.Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "deleted", 10, progress.Moved)
	})
}
