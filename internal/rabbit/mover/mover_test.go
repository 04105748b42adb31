package mover

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/deadletter"
	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/test/amqpmethod"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/netfault"
)

func TestMove(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, bodies(1200)...)
		progress, err := start(t, vh, func(*Config) {}).Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "moved", 1200, progress.Moved)
		topologytest.Equal(t, "destination", bodies(1200), drained(t, vh, destination, 1200))
		holds(t, vh, source, 0)
	})
}

func odd(body string) string {
	if number, _ := strconv.Atoi(body); number%2 == 1 {
		return "Odd"
	}
	return ""
}

// Messages that stay are held on several channels. A channel takes at most 500 messages, except in a selective move.
func TestMoveSome(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		all := bodies(1200)
		for _, selective := range []bool{false, true} {
			vh.Publish("", source, all...)
			progress, err := start(t, vh, func(c *Config) {
				c.Selective, c.Filter = selective, toDestination{skip: odd}
			}).Wait()
			topologytest.Equal(t, "error", nil, err)
			topologytest.Equal(t, "moved", 600, progress.Moved)
			topologytest.Equal(t, "skipped", map[string]int{"Odd": 600}, progress.Skipped)
			isOdd := func(body string) bool { return odd(body) != "" }
			topologytest.Equal(t, "destination", slices.DeleteFunc(slices.Clone(all), isOdd), drained(t, vh, destination, 600))
			isEven := func(body string) bool { return odd(body) == "" }
			topologytest.Equal(t, "source", slices.DeleteFunc(slices.Clone(all), isEven), drained(t, vh, source, 600))
		}
	})
}

// A slow move has a small prefetch, but does not need a channel for each message that stays.
func TestMoveSlowly(t *testing.T) {
	deadline.InTestAll(t)
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, bodies(1500)...)
		progress, err := start(t, vh, func(c *Config) {
			c.Settings = func() Settings { return Settings{Rate: 4, MaxDepth: -1} }
			c.Filter = toDestination{skip: func(body string) string {
				if body == "1499" {
					return ""
				}
				return "Other"
			}}
		}).Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "skipped", map[string]int{"Other": 1499}, progress.Skipped)
		topologytest.Equal(t, "destination", []string{"1499"}, drained(t, vh, destination, 1))
		topologytest.Equal(t, "source", bodies(1499), drained(t, vh, source, 1499))
	})
}

// The broker returns a copy that has no number. The move acknowledges no message whose copy may not have arrived.
func TestUnknownReturn(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeleteQueue(destination)
		vh.Publish("", source, bodies(20)...)
		_, err := start(t, vh, func(c *Config) { c.Copier = unnumbered{} }).Wait()
		if !errors.Is(err, ErrUnknownReturn) {
			t.Errorf("got %v", err)
		}
		topologytest.Equal(t, "source", bodies(20), sorted(drained(t, vh, source, 20)))
	})
}

// unnumbered forgets to number copies.
type unnumbered struct{ toDestination }

func (u unnumbered) Copy(message *amqp.Delivery, seq int64) (contract.Route, amqp.Publishing, error) {
	route, copied, err := u.toDestination.Copy(message, seq)
	copied.Headers = nil
	return route, copied, err
}

// Without the permission to read the queue, the move does not retry.
func TestMoveWithoutPermission(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, "one")
		user := vh.Broker.NewUser(t)
		vh.Grant(user, ".*", ".*", "^$")
		broker := vh.Broker
		broker.Username, broker.Password = user.Username, user.Password
		_, err := start(t, vh, func(c *Config) { c.Dial = dialer(t, vh.Through(broker), vh.Broker.AMQPURI) }).Wait()
		if !errors.Is(err, brokererr.ErrAccessRefused) {
			t.Errorf("got %v", err)
		}
		topologytest.Equal(t, "source", []string{"one"}, drained(t, vh, source, 1))
	})
}

func TestDryRun(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, bodies(1200)...)
		progress, err := start(t, vh, func(c *Config) { c.DryRun, c.Filter = true, toDestination{skip: odd} }).Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "would be moved", 600, progress.Moved)
		topologytest.Equal(t, "skipped", map[string]int{"Odd": 600}, progress.Skipped)
		holds(t, vh, destination, 0)
		topologytest.Equal(t, "source", bodies(1200), drained(t, vh, source, 1200))
	})
}

// A move counts some messages apart, both in a dry run and when it moves them.
func TestApart(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, bodies(100)...)
		for _, dry := range []bool{true, false} {
			holds(t, vh, source, 100)
			progress, err := start(t, vh, func(c *Config) {
				c.DryRun, c.Apart = dry, func(message *amqp.Delivery) bool { return odd(string(message.Body)) != "" }
				c.Filter = toDestination{skip: func(body string) string {
					if len(body) == 1 {
						return "Short"
					}
					return ""
				}}
			}).Wait()
			topologytest.Equal(t, "error", nil, err)
			topologytest.Equal(t, "moved", 90, progress.Moved)
			topologytest.Equal(t, "apart", 45, progress.Apart)
		}
	})
}

func TestLimit(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, bodies(100)...)
		progress, err := start(t, vh, func(c *Config) { c.Limit, c.Moved = 30, 10 }).Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "moved, by an earlier run too", 30, progress.Moved)
		topologytest.Equal(t, "destination", bodies(20), drained(t, vh, destination, 20))
		topologytest.Equal(t, "source", bodies(100)[20:], drained(t, vh, source, 80))
	})
}

// Another consumer, such as a dry run, has returned all messages before. Messages that stay retain their places before the messages
// that the move did not reach.
func TestLimitAfterABrowse(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, bodies(100)...)
		redeliver(t, vh, source, 100)
		NewWithT(t).Eventually(func() int { return vh.Ready(source) }).WithTimeout(within).Should(Equal(100))
		_, err := start(t, vh, func(c *Config) { c.Limit, c.Filter = 5, toDestination{skip: odd} }).Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "destination", []string{"0", "2", "4", "6", "8"}, drained(t, vh, destination, 5))
		want := slices.DeleteFunc(bodies(100), func(body string) bool { return slices.Contains([]string{"0", "2", "4", "6", "8"}, body) })
		topologytest.Equal(t, "source", want, drained(t, vh, source, 95))
	})
}

// Messages published after the beginning of the move stay.
func TestTotal(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, bodies(100)...)
		_, err := start(t, vh, func(c *Config) { c.Total = 60 }).Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "destination", bodies(60), drained(t, vh, destination, 60))
		topologytest.Equal(t, "source", bodies(100)[60:], drained(t, vh, source, 40))
	})
}

// Other consumers have taken messages: the move ends when none are left.
func TestFewerThanTotal(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, bodies(10)...)
		progress, err := start(t, vh, func(c *Config) { c.Total = 60 }).Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "moved", 10, progress.Moved)
	})
}

// A move reports other consumers at its end. They may hold messages that it did not see, because newer messages reached its total.
func TestAMoveReportsOtherConsumers(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		consumers := func(change func(*Config)) int {
			progress, err := start(t, vh, func(c *Config) {
				c.Total = 10
				change(c)
			}).Wait()
			topologytest.Equal(t, "error", nil, err)
			topologytest.Equal(t, "examined", 10, progress.Examined())
			return progress.Consumers
		}
		vh.Publish("", source, bodies(10)...)
		topologytest.Equal(t, "before there is one, of a dry run", 0, consumers(func(c *Config) { c.DryRun = true }))
		topologytest.Equal(t, "before there is one, of a move that skips", 0, consumers(func(c *Config) {
			c.Filter = toDestination{skip: func(string) string { return "stays" }}
		}))
		holding(t, vh, source, 4)
		vh.Publish("", source, bodies(4)...)
		topologytest.Equal(t, "of a dry run", 1, consumers(func(c *Config) { c.DryRun = true }))
		topologytest.Equal(t, "of a move", 1, consumers(func(*Config) {}))
	})
}

// A quorum queue that is too busy to count its consumers reports none.
func TestAMoveReportsOtherConsumersOfABusyQueue(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, bodies(4)...)
		holding(t, vh, source, 4)
		vh.Publish("", source, bodies(4)...)
		var canceled, stalled atomic.Bool
		uri := busy(t, vh, source, func() bool { return canceled.Load() && stalled.CompareAndSwap(false, true) })
		watched := netfault.NewFrameProxy(t, uri, func(f netfault.Frame) netfault.Verdict {
			if f.Method == amqpmethod.BasicCancelOK {
				canceled.Store(true)
			}
			return netfault.Pass
		})
		progress, err := start(t, vh, func(c *Config) { c.Dial = dialer(t, vh, watched.URI) }).Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "a count failed", true, stalled.Load())
		topologytest.Equal(t, "consumers", 1, progress.Consumers)
	})
}

// A browse beside a move pauses the move, and returns its messages.
func TestAMoveReportsNoBrowseBesideIt(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		endBrowse := holding(t, vh, source, 0)
		var ended sync.Once
		began := time.Now()
		progress, err := start(t, vh, func(c *Config) {
			c.Settings = func() Settings {
				isBrowsed := time.Since(began) < 2*endLimit
				if !isBrowsed {
					ended.Do(endBrowse)
				}
				return Settings{MaxDepth: -1, Paused: isBrowsed}
			}
		}).Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "consumers", 0, progress.Consumers)
	})
}

func TestDestinationIsFull(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeleteQueue(destination)
		vh.DeclareQueue(destination, quorum(vh, map[string]any{"x-max-length": 50, "x-overflow": "reject-publish"}))
		vh.Publish("", source, bodies(1200)...)
		running := start(t, vh, func(*Config) {})
		running.awaits(DestinationFull)
		moved := []string{}
		NewWithT(t).Eventually(func() int {
			moved = append(moved, bodiesOf(drain(t, vh, destination))...)
			return len(moved)
		}).WithTimeout(2*within).Should(BeNumerically(">=", 1200), "%+v", running.Progress())
		_, err := running.Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "moved", bodies(1200), sorted(moved))
		holds(t, vh, source, 0)
	})
}

// through publishes copies to an exchange.
type through struct {
	toDestination

	exchange string
}

func (t through) Copy(message *amqp.Delivery, seq int64) (contract.Route, amqp.Publishing, error) {
	_, copied, err := t.toDestination.Copy(message, seq)
	return contract.Route{Exchange: t.exchange}, copied, err
}

// The move publishes a copy again if the one queue behind a private exchange refuses it, because no other queue can have the
// copy.
func TestDestinationBehindAPrivateExchangeIsFull(t *testing.T) {
	deadline.InTestAll(t)
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeleteQueue(destination)
		vh.DeclareQueue(destination, quorum(vh, map[string]any{"x-max-length": 50, "x-overflow": "reject-publish"}))
		vh.DeclareExchange("private", "fanout", nil)
		vh.Bind("private", destination, "", nil)
		vh.Publish("", source, bodies(600)...)
		running := start(t, vh, func(c *Config) { c.Exchange, c.Copier, c.MaxFailures = "private", through{exchange: "private"}, 1 })
		running.awaits(DestinationFull)
		moved := 0
		NewWithT(t).Eventually(func() int {
			moved += len(drain(t, vh, destination))
			return moved
		}).WithTimeout(2*within).Should(BeNumerically(">=", 600), "%+v", running.Progress())
		_, err := running.Wait()
		topologytest.Equal(t, "error", nil, err)
	})
}

// A move that need not empty the queue ends although messages arrive all the time. If a busy broker does not answer for seconds, the move
// cuts its connection, and moves some messages twice.
func TestEndBelow(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, bodies(2000)...)
		running := start(t, vh, func(c *Config) { c.EndBelow, c.Total = 20, math.MaxInt })
		published := 2000
		for ended := false; !ended; {
			select {
			case <-running.ended:
				ended = true
			default:
				vh.Publish("", source, strconv.Itoa(published))
				published++
			}
		}
		progress, err := running.Wait()
		topologytest.Equal(t, "error", nil, err)
		found, left := map[string]bool{}, 0
		for _, body := range drained(t, vh, destination, progress.Moved) {
			found[body] = true
		}
		NewWithT(t).Eventually(func() int {
			for _, body := range bodiesOf(drain(t, vh, source)) {
				found[body] = true
				left++
			}
			return len(found)
		}).WithTimeout(within).Should(Equal(published), "different messages in both queues")
		if moved := published - left; moved < 2000-20 {
			t.Errorf("%d were moved", moved)
		}
	})
}

func TestDestinationIsMissing(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeleteQueue(destination)
		vh.Publish("", source, bodies(1000)...)
		running := start(t, vh, func(*Config) {})
		running.awaits(DestinationMissing)
		vh.DeclareQueue(destination, quorum(vh, nil))
		progress, err := running.Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "moved", 1000, progress.Moved)
		topologytest.Equal(t, "failures", []Failure(nil), progress.Failures)
		topologytest.Equal(t, "destination", bodies(1000), drained(t, vh, destination, 1000))
	})
}

// Messages that may go to several queues are routed independently of each other.
func TestUnroutable(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeleteQueue(destination)
		vh.Publish("", source, bodies(20)...)
		progress, err := start(t, vh, func(c *Config) { c.Destination, c.MaxFailures = "", 100 }).Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "failures", 20, len(progress.Failures))
		topologytest.Equal(t, "reason", failureUnroutable, progress.Failures[0].Reason)
		topologytest.Equal(t, "source", bodies(20), drained(t, vh, source, 20))
	})
}

// At a low rate the channel of the move takes one message at a time. A message that cannot be moved fills it.
func TestUnroutableAtALowRate(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, bodies(3)...)
		progress, err := start(t, vh, func(c *Config) {
			c.Destination, c.Copier, c.Settings = "", toOthers{"0": "missing"}, func() Settings { return Settings{Rate: 4, MaxDepth: -1} }
		}).Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "moved", 2, progress.Moved)
		topologytest.Equal(t, "source", bodies(1), drained(t, vh, source, 1))
	})
}

func TestDestinationIsBusy(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, bodies(100)...)
		running := start(t, vh, func(c *Config) { c.Settings = func() Settings { return Settings{MaxDepth: 30} } })
		running.awaits(DestinationBusy)
		NewWithT(t).Eventually(func() int { return vh.Ready(destination) }).WithTimeout(within).Should(Equal(30))
		moved := []string{}
		NewWithT(t).Eventually(func() int {
			moved = append(moved, bodiesOf(drain(t, vh, destination))...)
			return len(moved)
		}).WithTimeout(4 * within).Should(Equal(100))
		_, err := running.Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "moved", bodies(100), moved)
	})
}

// A quorum queue that is too busy to count its messages reports none. The move must not believe that the destination has room.
func TestADestinationThatIsTooBusyToCount(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", destination, bodies(10)...)
		vh.Publish("", source, bodies(100)...)
		var answers atomic.Int32
		uri := busy(t, vh, destination, func() bool { return answers.Add(1) <= 2 })
		running := start(t, vh, func(c *Config) {
			c.Dial, c.Settings = dialer(t, vh, uri), func() Settings { return Settings{MaxDepth: 10} }
		})
		running.awaits(DestinationBusy)
		topologytest.Equal(t, "moved", 0, running.Progress().Moved)
		running.Stop()
		_, err := running.Wait()
		topologytest.Equal(t, "error", nil, err)
		holds(t, vh, destination, 10)
	})
}

// RabbitMQ closes the channel on which it was asked for a missing queue, possibly late.
func TestDestinationIsMissingAtADistantBroker(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, bodies(10)...)
		vh.DeleteQueue(destination)
		late := netfault.NewFrameProxy(t, vh.Broker.AMQPURI, func(f netfault.Frame) netfault.Verdict {
			if f.FromBroker && f.Method == amqpmethod.ChannelClose {
				time.Sleep(2 * stallMargin)
			}
			return netfault.Pass
		})
		running := start(t, vh, func(c *Config) {
			c.Dial, c.Settings = dialer(t, vh, late.URI), func() Settings { return Settings{MaxDepth: 10} }
		})
		running.awaits(DestinationMissing)
		vh.DeclareQueue(destination, quorum(vh, nil))
		progress, err := running.Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "moved", 10, progress.Moved)
	})
}

// Messages in a delay tier arrive at the main queue together. The depth limit therefore counts both queues.
func TestQueueBehindTheDestinationIsBusy(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareQueue("behind", quorum(vh, nil))
		vh.Publish("", "behind", bodies(25)...)
		holds(t, vh, "behind", 25)
		vh.Publish("", source, bodies(100)...)
		running := start(t, vh, func(c *Config) {
			c.Behind, c.Settings = "behind", func() Settings { return Settings{MaxDepth: 30} }
		})
		running.awaits(DestinationBusy)
		holds(t, vh, destination, 5)
		NewWithT(t).Eventually(func() string { return running.Progress().Detail }).WithTimeout(within).
			Should(Equal(`queues "orders" and "behind" have about 30 ready messages together`))
		drain(t, vh, "behind")
		holds(t, vh, destination, 30)
	})
}

// A message for which the broker closes the channel stays, and a message whose headers fit into no frame stays. All other messages
// arrive.
func TestPoison(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		want := map[string]string{"reply": FailureRefused, "user": FailureRefused, "large": failureTooLarge}
		vh.Publish("", source, bodies(300)...)
		vh.Publish("", source, "reply", "user")
		if !strings.HasPrefix(vh.Broker.Version, "3.") { // where a message may have 128 MiB
			vh.Publish("", source, "body")
			want["body"] = FailureRefused
		}
		publish(t, vh, source, amqp.Publishing{Body: []byte("large"), Headers: amqp.Table{"text": strings.Repeat("x", 130_900)}})
		vh.Publish("", source, bodies(600)[300:]...)
		running := start(t, vh, func(c *Config) { c.Copier = poisonous{} })
		progress, err := running.Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "destination", bodies(600), sorted(bodiesOf(drain(t, vh, destination))))
		NewWithT(t).Eventually(func() int { return vh.Ready(source) }).WithTimeout(within).Should(Equal(len(want)))
		reasons := map[string]string{}
		for _, failure := range progress.Failures {
			reasons[failure.ID] = failure.Reason
		}
		found := map[string]string{}
		for _, left := range drain(t, vh, source) {
			found[string(left.Body)] = reasons[deadletter.Fingerprint(&left)]
		}
		topologytest.Equal(t, "what stays, and why", want, found)
		topologytest.Equal(t, "failures", len(want), len(progress.Failures))
	})
}

// poisonous publishes some messages in a form that no broker accepts.
type poisonous struct{ toDestination }

func (p poisonous) Copy(message *amqp.Delivery, seq int64) (contract.Route, amqp.Publishing, error) {
	route, copied, err := p.toDestination.Copy(message, seq)
	switch string(message.Body) {
	case "reply":
		copied.ReplyTo = "amq.rabbitmq.reply-to"
	case "user":
		copied.UserId = "nobody"
	case "large":
		copied.Headers["more"] = strings.Repeat("x", 200)
	case "body":
		copied.Body = make([]byte, 16<<20+1)
	}
	return route, copied, err
}

// RabbitMQ adds headers to a rejected message. If the message had filled the frame, no consumer could read it afterwards. A moved
// message can be rejected and moved again.
func TestRoomForTheHeadersOfTheBroker(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeleteQueue(destination)
		vh.DeclareQueue(destination, quorum(vh, map[string]any{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": source}))
		_, empty, err := toDestination{}.Copy(&amqp.Delivery{Body: []byte("fits"), Headers: amqp.Table{"text": ""}}, 1)
		topologytest.Equal(t, "error", nil, err)
		text := strings.Repeat("x", amqpconn.UsualFrameMax-frameHeadroom-frameSize(empty))
		publish(t, vh, source, amqp.Publishing{Body: []byte("fits"), Headers: amqp.Table{"text": text}})
		publish(t, vh, source, amqp.Publishing{Body: []byte("too large"), Headers: amqp.Table{"text": text + "x"}})
		progress, err := start(t, vh, func(*Config) {}).Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "reason", failureTooLarge, progress.Failures[0].Reason)
		topologytest.Equal(t, "source", []string{"too large"}, drained(t, vh, source, 1))
		reject(t, vh, destination)
		topologytest.Equal(t, "rejected", []string{"fits"}, drained(t, vh, source, 1))
	})
}

func reject(t *testing.T, vh *brokers.VHost, queue string) {
	t.Helper()
	holds(t, vh, queue, 1)
	channel, closeConnection := connect(t, vh, "reject")
	defer closeConnection()
	message, _, err := channel.Get(queue, false)
	if err := errors.Join(err, message.Reject(false)); err != nil {
		t.Fatal(err)
	}
}

// RabbitMQ redelivers a message with additional headers, even if they no longer fit into a frame. Consumers can then read neither
// the message nor the messages behind it.
func TestUnreadable(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, "before")
		publish(t, vh, source, amqp.Publishing{Body: []byte("large"), Headers: amqp.Table{"text": strings.Repeat("x", 131_015)}})
		vh.Publish("", source, "behind")
		redeliver(t, vh, source, 3)
		NewWithT(t).Eventually(func() int { return vh.Ready(source) }).WithTimeout(within).Should(Equal(3))
		_, err := start(t, vh, func(*Config) {}).Wait()
		if !errors.Is(err, ErrUnreadable) {
			t.Errorf("got %v", err)
		}
		NewWithT(t).Expect(bodiesOf(drain(t, vh, destination))).To(ContainElement("before"))
		NewWithT(t).Eventually(func() int { return vh.Ready(source) }).WithTimeout(within).Should(BeNumerically(">=", 1))
	})
}

// The AMQP library ends the connection at headers that are nested deeper than 32 levels, or that have more than 8192 elements. A
// dead letter with such headers must not keep a move, its slot and its connection busy forever.
func TestHeadersThatTheLibraryRefuses(t *testing.T) {
	nested, many := amqp.Table{}, amqp.Table{}
	for range 40 {
		nested = amqp.Table{"n": nested}
	}
	for i := range 9000 {
		many[strconv.Itoa(i)] = true
	}
	for name, headers := range map[string]amqp.Table{"nested": nested, "many": many} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, vh *brokers.VHost) {
				vh.Publish("", source, "before")
				publish(t, vh, source, amqp.Publishing{Body: []byte("refused"), Headers: headers})
				vh.Publish("", source, "behind")
				_, _, err := browseSource(t.Context(), t, vh, func(*BrowseConfig) {})
				if !errors.Is(err, ErrUnreadable) {
					t.Errorf("the browse ended with %v", err)
				}
				holds(t, vh, source, 3) // once the broker has noticed that the browse is gone
				running := start(t, vh, func(*Config) {})
				NewWithT(t).Eventually(running.ended).WithTimeout(within).Should(BeClosed())
				if _, err := running.Wait(); !errors.Is(err, ErrUnreadable) {
					t.Errorf("the move ended with %v", err)
				}
				moved := bodiesOf(drain(t, vh, destination)) // RabbitMQ may return "behind" in front of the refused one
				NewWithT(t).Expect(moved).To(And(ContainElement("before"), Not(ContainElement("refused"))))
				NewWithT(t).Eventually(func() int { return vh.Ready(source) }).WithTimeout(within).Should(BeNumerically(">=", 1))
			})
		})
	}
}

// The connection ends while the move asks for the depth of the destination, and the question fails before the reason arrives.
// The move still moves the messages before the unreadable one, and ends soon.
func TestUnreadableWhileTheDepthIsAskedFor(t *testing.T) {
	deadline.InTestAll(t)
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, bodies(20)...)
		publish(t, vh, source, amqp.Publishing{Body: []byte("large"), Headers: amqp.Table{"text": strings.Repeat("x", 131_015)}})
		redeliver(t, vh, source, 21)
		NewWithT(t).Eventually(func() int { return vh.Ready(source) }).WithTimeout(within).Should(Equal(21))
		running := start(t, vh, func(c *Config) { c.Settings = func() Settings { return Settings{Rate: 100, MaxDepth: 1000} } })
		NewWithT(t).Eventually(running.ended).WithTimeout(deadline.For(time.Minute)).Should(BeClosed())
		_, err := running.Wait()
		if !errors.Is(err, ErrUnreadable) {
			t.Errorf("got %v", err)
		}
		topologytest.Equal(t, "destination", bodies(20), sorted(bodiesOf(drain(t, vh, destination))))
		NewWithT(t).Eventually(func() int { return vh.Ready(source) }).WithTimeout(within).Should(Equal(1))
	})
}

// Many small messages come first, then more large ones than a connection retains. The move lowers its prefetch, and the
// messages are seen, counted and moved in their order.
func TestLargeMessagesBehindSmallOnes(t *testing.T) {
	deadline.InTestAll(t)
	each(t, func(t *testing.T, vh *brokers.VHost) {
		small, large := bodies(600), make([]string, 24)
		for i := range large {
			large[i] = strconv.Itoa(len(small)+i) + strings.Repeat(" ", 900<<10)
		}
		vh.Publish("", source, append(small, large...)...)
		NewWithT(t).Eventually(func() int { return vh.Ready(source) }).WithTimeout(within).Should(Equal(len(small) + len(large)))
		seen, _, err := browseSource(t.Context(), t, vh, func(*BrowseConfig) {})
		topologytest.Equal(t, "error of a browse", nil, err)
		topologytest.Equal(t, "seen", bodies(len(small)+len(large)), trimmed(seen))
		counted, err := start(t, vh, func(c *Config) { c.DryRun, c.Total = true, len(small)+len(large) }).Wait()
		topologytest.Equal(t, "error of a count", nil, err)
		topologytest.Equal(t, "counted", len(small)+len(large), counted.Moved)
		holds(t, vh, source, len(small)+len(large))
		moved, err := start(t, vh, func(*Config) {}).Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "moved", len(small)+len(large), moved.Certain())
		topologytest.Equal(t, "destination", bodies(len(small)+len(large)), trimmed(drained(t, vh, destination, len(small)+len(large))))
		holds(t, vh, source, 0)
	})
}

func trimmed(texts []string) []string {
	for i := range texts {
		texts[i] = strings.TrimSpace(texts[i])
	}
	return texts
}

// A message that is larger than a connection reads is a failure of that message, unless it is skipped anyway. It is neither shown, nor
// counted as selected, nor deleted.
func TestMessageThatIsTooLarge(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, "before", strings.Repeat("x", 1<<20+1), "behind")
		holds(t, vh, source, 3)
		var positions []int
		seen, found, err := browseSource(t.Context(), t, vh, func(c *BrowseConfig) {
			visit := c.Visit
			c.Visit = func(position int, message *amqp.Delivery) bool {
				positions = append(positions, position)
				return visit(position, message)
			}
		})
		topologytest.Equal(t, "error of a browse", nil, err)
		topologytest.Equal(t, "seen", []string{"before", "behind"}, seen)
		topologytest.Equal(t, "positions", []int{0, 2}, positions)
		topologytest.Equal(t, "found", Browsed{Ready: 3, Examined: 3, TooLarge: 1}, found)
		progress, err := start(t, vh, func(c *Config) {
			c.Filter = toDestination{skip: func(body string) string {
				return map[string]string{"": "Other", "before": "Early", "behind": "Late"}[body]
			}}
		}).Wait()
		topologytest.Equal(t, "error of a move that selects none", nil, err)
		topologytest.Equal(t, "skipped by the filter", map[string]int{"Early": 1, "Other": 1, "Late": 1}, progress.Skipped)
		topologytest.Equal(t, "failures of a move that selects none", 0, progress.Failed)
		progress, err = start(t, vh, func(*Config) {}).Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "moved", 2, progress.Moved)
		topologytest.Equal(t, "failures", 1, len(progress.Failures))
		topologytest.Equal(t, "failure", Failure{
			ID: progress.Failures[0].ID, Reason: failureBodyTooLarge,
			Message: "its body has 1048577 bytes, and Warren moves messages of up to 16777216 bytes",
		}, progress.Failures[0])
		topologytest.Equal(t, "destination", []string{"before", "behind"}, drained(t, vh, destination, 2))
		holds(t, vh, source, 1)
		deleted, err := start(t, vh, deleting(func(*Config) {})).Wait()
		topologytest.Equal(t, "error of a deletion", nil, err)
		topologytest.Equal(t, "deleted", 0, deleted.Moved)
		topologytest.Equal(t, "skipped", map[string]int{"TooLarge": 1}, deleted.Skipped)
		holds(t, vh, source, 1)
	})
}

func TestTooManyFailures(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeleteQueue(destination)
		vh.Publish("", source, bodies(300)...)
		progress, err := start(t, vh, func(c *Config) { c.Destination, c.MaxFailures = "", 3 }).Wait()
		if !errors.Is(err, ErrTooManyFailures) {
			t.Errorf("got %v", err)
		}
		if len(progress.Failures) < 3 {
			t.Errorf("%d failures", len(progress.Failures))
		}
		topologytest.Equal(t, "source", bodies(300), drained(t, vh, source, 300))
	})
}

// Identical messages have one ID. Each of them counts as a failure.
func TestFailuresThatAreAlike(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeleteQueue(destination)
		vh.Publish("", source, slices.Repeat([]string{"alike"}, 20)...)
		progress, err := start(t, vh, func(c *Config) { c.Destination, c.MaxFailures = "", 21 }).Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "failed", 20, progress.Failed)
		topologytest.Equal(t, "examined", 20, progress.Examined())
		topologytest.Equal(t, "reported failures", 1, len(progress.Failures))
		_, err = start(t, vh, func(c *Config) { c.Destination, c.MaxFailures = "", 20 }).Wait()
		if !errors.Is(err, ErrTooManyFailures) {
			t.Errorf("got %v", err)
		}
	})
}

// AMQP limits exchanges and routing keys to 255 bytes. The client library ends the connection if a name is longer.
func TestRouteIsTooLong(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, "0", "long", "1")
		progress, err := start(t, vh, func(c *Config) {
			c.Destination, c.Copier = "", toOthers{"long": strings.Repeat("x", 256)}
		}).Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "destination", bodies(2), drained(t, vh, destination, 2))
		topologytest.Equal(t, "source", []string{"long"}, drained(t, vh, source, 1))
		topologytest.Equal(t, "reason", failureNoRoute, progress.Failures[0].Reason)
	})
}

// toOthers moves some messages, by their bodies, to other queues.
type toOthers map[string]string

func (o toOthers) Copy(message *amqp.Delivery, seq int64) (contract.Route, amqp.Publishing, error) {
	route, copied, err := toDestination{}.Copy(message, seq)
	route.RoutingKey = cmp.Or(o[string(message.Body)], route.RoutingKey)
	return route, copied, err
}

// RabbitMQ refuses a message if one of the queues behind its exchange refuses it, and the other queues still receive it. A refused
// message therefore stays and is not published again, not even by the next run. Each retry would duplicate it in the other queues.
func TestOneOfSeveralQueuesRefuses(t *testing.T) {
	for name, to := range map[string]string{"several destinations": "", "a destination behind an exchange": "full"} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, vh *brokers.VHost) {
				vh.DeclareQueue("full", quorum(vh, map[string]any{"x-max-length": 1, "x-overflow": "reject-publish"}))
				vh.Publish("", "full", "filling", "more than the limit, for a quorum queue takes some more")
				vh.DeclareExchange("both", "fanout", nil)
				vh.Bind("both", destination, "", nil)
				vh.Bind("both", "full", "", nil)
				vh.Publish("", source, bodies(25)...)
				var progress Progress
				for range 2 {
					var err error
					progress, err = start(t, vh, func(c *Config) {
						c.Destination, c.Copier, c.MaxFailures = to, throughExchange{exchange: "both"}, 100
						c.Failures = progress.Failures
					}).Wait()
					topologytest.Equal(t, "error", nil, err)
					topologytest.Equal(t, "moved", 0, progress.Moved)
					topologytest.Equal(t, "failed", 25, progress.Failed)
					topologytest.Equal(t, "reason", FailureRefused, progress.Failures[0].Reason)
					holds(t, vh, source, 25)
				}
				topologytest.Equal(t, "the queue with room", bodies(25), drained(t, vh, destination, 25))
				topologytest.Equal(t, "source", bodies(25), drained(t, vh, source, 25))
			})
		})
	}
}

// throughExchange moves every message to an exchange.
type throughExchange struct{ exchange string }

func (e throughExchange) Copy(message *amqp.Delivery, seq int64) (contract.Route, amqp.Publishing, error) {
	_, copied, err := toDestination{}.Copy(message, seq)
	return contract.Route{Exchange: e.exchange}, copied, err
}

// One of several destinations is full. Its message stays, and the other destinations receive theirs.
func TestOneOfManyDestinationsIsFull(t *testing.T) {
	deadline.InTestAll(t)
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareQueue("full", quorum(vh, map[string]any{"x-max-length": 1, "x-overflow": "reject-publish"}))
		vh.Publish("", "full", "filling", "more than the limit, for a quorum queue takes some more")
		vh.Publish("", source, bodies(25)...)
		progress, err := start(t, vh, func(c *Config) { c.Destination, c.Copier = "", toOthers{"0": "full"} }).Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "moved", 24, progress.Moved)
		topologytest.Equal(t, "reason", FailureRefused, progress.Failures[0].Reason)
		topologytest.Equal(t, "destination", bodies(25)[1:], drained(t, vh, destination, 24))
		topologytest.Equal(t, "source", bodies(1), drained(t, vh, source, 1))
	})
}

// RabbitMQ refuses some copies before it confirms earlier ones. It then confirms with one ack, and the library reports the refused ones
// as confirmed too.
func TestRefusalsBetweenConfirms(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		const messages = 2000
		vh.DeclareQueue("full", quorum(vh, map[string]any{"x-max-length": 1, "x-overflow": "reject-publish"}))
		vh.Publish("", "full", "filling", "more than the limit, for a quorum queue takes some more")
		vh.Publish("", source, bodies(messages)...)
		routes := toOthers{}
		for i := 0; i < messages; i += 2 {
			routes[strconv.Itoa(i)] = "full"
		}
		progress, err := start(t, vh, func(c *Config) {
			c.Destination, c.Copier, c.MaxFailures = "", routes, messages
		}).Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "moved", messages/2, progress.Moved)
		holds(t, vh, destination, messages/2)
		holds(t, vh, source, messages/2)
	})
}

// If a queue has a single active consumer, other consumers receive nothing.
func TestSingleActiveConsumer(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeleteQueue(source)
		vh.DeclareQueue(source, quorum(vh, map[string]any{"x-single-active-consumer": true}))
		vh.Publish("", source, bodies(50)...)
		release := holding(t, vh, source, 1)
		running := start(t, vh, func(c *Config) { c.Total = 50 })
		running.awaits(NothingDelivered)
		release()
		progress, err := running.Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "moved", 50, progress.Moved)
		topologytest.Equal(t, "destination", bodies(50), drained(t, vh, destination, 50))
	})
}

// A queue without a leader neither accepts nor refuses messages.
func TestADestinationThatConfirmsNothing(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, bodies(50)...)
		proxy := netfault.NewFrameProxy(t, vh.Broker.AMQPURI, func(frame netfault.Frame) netfault.Verdict {
			if frame.FromBroker && frame.Method == amqpmethod.BasicAck {
				return netfault.Hold
			}
			return netfault.Pass
		})
		running := start(t, vh, func(c *Config) { c.Dial = dialer(t, vh, proxy.URI) })
		running.awaits(NothingConfirmed)
		topologytest.Equal(t, "detail", `the broker has confirmed no message for 10s, perhaps because queue "orders" has no leader`,
			running.Progress().Detail)
		proxy.Release()
		progress, err := running.Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "progress", Progress{State: Moving, Moved: 50, Skipped: map[string]int{}}, progress)
	})
}

// A stopped move settles the published messages: no message is duplicated, and no message is missing.
func TestStop(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, bodies(2000)...)
		running := start(t, vh, func(c *Config) { c.Settings = func() Settings { return Settings{Rate: 1000, MaxDepth: -1} } })
		NewWithT(t).Eventually(func() int { return running.Progress().Moved }).WithTimeout(within).Should(BeNumerically(">", 100))
		running.Stop()
		progress, err := running.Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "destination", bodies(progress.Moved), drained(t, vh, destination, progress.Moved))
		topologytest.Equal(t, "source", bodies(2000)[progress.Moved:], drained(t, vh, source, 2000-progress.Moved))
	})
}

// The move takes the last message while the destination is busy.
func TestDestinationIsBusyForTheLastMessage(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", destination, bodies(5)...)
		vh.Publish("", source, "last")
		running := start(t, vh, func(c *Config) { c.Settings = func() Settings { return Settings{MaxDepth: 5} } })
		running.awaits(DestinationBusy)
		vh.Purge(destination)
		progress, err := running.Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "moved", 1, progress.Moved)
	})
}

// The network fails during the move: no message is lost, and only messages in flight may be duplicated.
func TestCutConnections(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, bodies(3000)...)
		proxy := netfault.NewProxy(t, vh.Broker.AMQPURI)
		running := start(t, vh, func(c *Config) { c.Dial = dialer(t, vh, proxy.URI) })
		const cuts = 3
		for cut := 1; cut <= cuts; cut++ {
			NewWithT(t).Eventually(func() int { return running.Progress().Moved }).WithTimeout(within).
				WithPolling(10 * time.Millisecond).Should(BeNumerically(">=", cut*300))
			proxy.Cut()
		}
		_, err := running.Wait()
		topologytest.Equal(t, "error", nil, err)
		moved := bodiesOf(drain(t, vh, destination))
		topologytest.Equal(t, "moved", bodies(3000), sorted(moved))
		if doubled := len(moved) - 3000; doubled > cuts*maxWindow {
			t.Errorf("%d messages are there twice, after %d cuts", doubled, cuts)
		}
		holds(t, vh, source, 0)
	})
}

// A connection is lost for the client, and the broker does not notice: it processes the copies in flight, and does not return their
// originals. The next pass moves other messages. The limit and the range also cover the copies in flight.
func TestLimitAfterAHalfOpenConnection(t *testing.T) {
	deadline.InTestAll(t)
	each(t, func(t *testing.T, vh *brokers.VHost) {
		const limit = 100
		vh.Publish("", source, bodies(2000)...)
		published, confirms := 0, 0
		proxy := netfault.NewFrameProxy(t, vh.Broker.AMQPURI, func(f netfault.Frame) netfault.Verdict {
			if f.Connection > 1 {
				return netfault.Pass
			}
			switch {
			case f.FromBroker && f.Method == amqpmethod.BasicAck:
				if confirms++; confirms > 30 {
					return netfault.Drop
				}
			case !f.FromBroker && f.Method == amqpmethod.BasicPublish:
				if published++; published == 60 {
					return netfault.Strand
				}
			}
			return netfault.Pass
		})
		progress, err := start(t, vh, func(c *Config) { c.Dial, c.Limit = dialer(t, vh, proxy.URI), limit }).Wait()
		topologytest.Equal(t, "error", nil, err)
		proxy.Release()
		NewWithT(t).Eventually(vh.Ready).WithArguments(destination).WithTimeout(within).Should(BeNumerically(">=", progress.Certain()))
		moved := len(sorted(bodiesOf(drain(t, vh, destination))))
		if moved > limit || moved < progress.Certain() || moved > progress.Moved {
			t.Errorf("%d distinct messages were moved, from %d to %d by the progress, with a limit of %d", moved, progress.Certain(), progress.Moved, limit)
		}
	})
}

// The network fails after all messages are moved, before the broker has processed the acknowledgements. The move moves the
// messages again that are back in the queue, rather than leave others behind.
func TestCutBeforeAcknowledgementsArrive(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, bodies(10)...)
		var dropped, cut atomic.Bool
		proxy := netfault.NewFrameProxy(t, vh.Broker.AMQPURI, func(f netfault.Frame) netfault.Verdict {
			switch {
			case f.FromBroker || cut.Load():
			case f.Method == amqpmethod.BasicAck:
				dropped.Store(true)
				return netfault.Drop
			case f.Method == amqpmethod.QueueDeclare && dropped.Load():
				cut.Store(true)
				return netfault.Cut
			}
			return netfault.Pass
		})
		progress, err := start(t, vh, func(c *Config) { c.Dial = dialer(t, vh, proxy.URI) }).Wait()
		topologytest.Equal(t, "error", nil, err)
		holds(t, vh, source, 0)
		// The first connection may have ended before the broker had confirmed all messages.
		topologytest.Equal(t, "may be there twice", progress.Moved-10, progress.Unsure)
		if progress.Unsure < 1 {
			t.Error("no message counts as uncertain")
		}
		// The first connection may also have ended before all messages were published.
		moved := bodiesOf(drain(t, vh, destination))
		topologytest.Equal(t, "destination", bodies(10), sorted(moved))
		if len(moved) <= 10 || len(moved) > 20 {
			t.Errorf("destination has %d messages, want more than 10 and at most 20", len(moved))
		}
	})
}

// The network fails more often than a message may end the connection. The move blames no message: it moves the selected
// messages, and every other message stays exactly once. RabbitMQ may return the messages of a cut connection behind the others.
func TestCutConnectionsOfASelectiveMove(t *testing.T) {
	deadline.InTestAll(t)
	each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.Publish("", source, bodies(2000)...)
		proxy := netfault.NewProxy(t, vh.Broker.AMQPURI)
		running := start(t, vh, func(c *Config) {
			c.Dial, c.Selective, c.Filter = dialer(t, vh, proxy.URI), true, toDestination{skip: odd}
			c.Settings = func() Settings { return Settings{Rate: 1000, MaxDepth: -1} }
		})
		const cuts = maxCrashes + 2
		for cut := 1; cut <= cuts; cut++ {
			NewWithT(t).Eventually(func() int { return running.Progress().Moved }).WithTimeout(within).
				WithPolling(10 * time.Millisecond).Should(BeNumerically(">=", cut*150))
			proxy.Cut()
		}
		progress, err := running.Wait()
		topologytest.Equal(t, "error", nil, err)
		topologytest.Equal(t, "skipped", map[string]int{"Odd": 1000}, progress.Skipped)
		moved := bodiesOf(drain(t, vh, destination))
		isOdd := func(body string) bool { return odd(body) != "" }
		topologytest.Equal(t, "moved", slices.DeleteFunc(bodies(2000), isOdd), sorted(moved))
		if doubled := len(moved) - 1000; doubled > cuts*maxWindow {
			t.Errorf("%d messages are there twice, after %d cuts", doubled, cuts)
		}
		isEven := func(body string) bool { return odd(body) == "" }
		topologytest.Equal(t, "source", slices.DeleteFunc(bodies(2000), isEven), sorted(drained(t, vh, source, 1000)))
	})
}

// Each message has a large header, such as the stack trace of an exception. A pass that holds messages does not count their headers.
func TestLargeHeaders(t *testing.T) {
	deadline.InTestAll(t)
	each(t, func(t *testing.T, vh *brokers.VHost) {
		const messages = 1200
		var large []amqp.Publishing
		for _, body := range bodies(messages) {
			large = append(large, amqp.Publishing{
				DeliveryMode: amqp.Persistent, Headers: amqp.Table{"x-exception-stacktrace": strings.Repeat("x", 20_000)}, Body: []byte(body),
			})
		}
		vh.Send("", source, large...)
		holds(t, vh, source, messages)
		seen, found, err := browseSource(t.Context(), t, vh, func(*BrowseConfig) {})
		topologytest.Equal(t, "error of the browse", nil, err)
		topologytest.Equal(t, "found", Browsed{Ready: messages}, found)
		topologytest.Equal(t, "seen", bodies(messages), seen)

		counted, err := start(t, vh, func(c *Config) { c.DryRun = true }).Wait()
		topologytest.Equal(t, "error of the dry run", nil, err)
		topologytest.Equal(t, "counted", messages, counted.Moved)

		stays := toDestination{skip: func(body string) string {
			if body == "1199" {
				return ""
			}
			return "stays"
		}}
		moved, err := start(t, vh, func(c *Config) { c.Selective, c.Filter, c.Copier = true, stays, stays }).Wait()
		topologytest.Equal(t, "error of the move", nil, err)
		topologytest.Equal(t, "moved", 1, moved.Moved)
		topologytest.Equal(t, "source", bodies(messages-1), drained(t, vh, source, messages-1))
	})
}
