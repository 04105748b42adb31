package memory

import (
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

// confirmation is the broker's confirm of a message.
type confirmation struct {
	once  sync.Once
	done  chan struct{}
	acked bool
}

func (c *confirmation) answer(acked bool) {
	c.once.Do(func() {
		c.acked = acked
		close(c.done)
	})
}

func (c *confirmation) isAnswered() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

func (c *confirmation) Done() <-chan struct{} { return c.done }

func (c *confirmation) Acked() bool {
	<-c.done
	return c.acked
}

// pump passes deliveries to a channel without a limit of waiting deliveries.
type pump struct {
	out     chan amqp.Delivery
	mu      sync.Mutex
	waiting []amqp.Delivery
	more    chan struct{}
	ending  bool
	stopped chan struct{}
}

func newPump() *pump {
	p := &pump{out: make(chan amqp.Delivery), more: make(chan struct{}, 1), stopped: make(chan struct{})}
	go p.run()
	return p
}

func (p *pump) push(d amqp.Delivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = append(p.waiting, d)
	p.wake()
}

func (p *pump) wake() {
	select {
	case p.more <- struct{}{}:
	default:
	}
}

// finish stops the pump after it has passed on all deliveries.
func (p *pump) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ending = true
	p.wake()
}

// stop stops the pump immediately. It must be called only once.
func (p *pump) stop() { close(p.stopped) }

func (p *pump) run() {
	defer close(p.out)
	for {
		p.mu.Lock()
		waiting, ending := p.waiting, p.ending
		p.waiting = nil
		p.mu.Unlock()
		for _, d := range waiting {
			select {
			case p.out <- d:
			case <-p.stopped:
				return
			}
		}
		if len(waiting) > 0 {
			continue
		}
		if ending {
			return
		}
		select {
		case <-p.more:
		case <-p.stopped:
			return
		}
	}
}
