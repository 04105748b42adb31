package mover

import (
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// A message that was published before the broker blocked the connection may be confirmed afterwards.
func TestBlockedUntilTheBrokerTakesMessages(t *testing.T) {
	t.Parallel()
	var reported []State
	p := &pass{
		move: &move{Config: Config{Report: func(now Progress) { reported = append(reported, now.State) }}}, intake: &intake{},
		state: Moving,
	}
	p.setBlocked(amqp.Blocking{Active: true, Reason: "low on memory"})
	p.setState(Moving, "")
	topologytest.Equal(t, "states while blocked", []State{Blocked}, reported)
	p.setBlocked(amqp.Blocking{})
	topologytest.Equal(t, "states", []State{Blocked, Moving}, reported)
}

// copies counts how often a copy was made.
type copies struct {
	toDestination

	made int
}

func (c *copies) Copy(message *amqp.Delivery, seq int64) (contract.Route, amqp.Publishing, error) {
	c.made++
	return c.toDestination.Copy(message, seq)
}

// A broker that blocks publishers does not read from the connection, so a pass would wait in the AMQP library for as long as that lasts.
func TestNothingIsPublishedWhileTheBrokerBlocks(t *testing.T) {
	t.Parallel()
	copier := &copies{}
	p := quiescent()
	p.Copier, p.bound, p.waiting = copier, 9, []*item{{}}
	p.setBlocked(amqp.Blocking{Active: true, Reason: "low on memory"})
	topologytest.Equal(t, "error of publish", nil, p.publish())
	topologytest.Equal(t, "copies", 0, copier.made)
	topologytest.Equal(t, "waiting", 1, len(p.waiting))
	p.waiting = nil
	topologytest.Equal(t, "takes messages", false, p.mayTake())
	p.intake.current().delivered = maxWindow // the channel is full
	topologytest.Equal(t, "error of refill", nil, p.refillFull())
	topologytest.Equal(t, "cancelled", false, p.intake.current().cancelled)
	p.setBlocked(amqp.Blocking{})
	topologytest.Equal(t, "takes messages afterwards", true, p.mayTake())
}

// A broker that is too busy to answer is asked less and less often. When the time is over, it is not asked again for each channel.
func TestAskUntil(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answers int // which of them is yes; never if zero
		asked   int
		took    time.Duration
	}{
		"the first": {answers: 1, asked: 1},
		"the third": {answers: 3, asked: 3, took: 3 * time.Millisecond},
		"never":     {asked: 205, took: 10*time.Second + 13*time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began, asked := time.Now(), 0
				until := began.Add(settleLimit)
				ask := func() bool {
					asked++
					return asked == test.answers
				}
				askUntil(until, ask)
				topologytest.Equal(t, "asked", test.asked, asked)
				topologytest.Equal(t, "took", test.took, time.Since(began))
				if test.answers == 0 {
					askUntil(until, ask)
					topologytest.Equal(t, "asked for the next channel", test.asked, asked)
				}
			})
		})
	}
}
