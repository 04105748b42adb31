package consumer

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// strictChannel checks acks as strictly as RabbitMQ, and also fails if an unfinished delivery is acked.
type strictChannel struct {
	mu         sync.Mutex
	unfinished map[uint64]bool
	settled    map[uint64]string
	highest    uint64
	frames     int
	wrong      error
	delay      func()
}

func (c *strictChannel) deliver(tag uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unfinished[tag] = true
	c.highest = tag
}

// finish marks a delivery as finished, so that it may be settled.
func (c *strictChannel) finish(tag uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.unfinished, tag)
}

func (c *strictChannel) Ack(tag uint64, multiple bool) error { return c.settle(tag, multiple, "acked") }

func (c *strictChannel) Reject(tag uint64, requeue bool) error {
	return c.settle(tag, false, fmt.Sprintf("rejected, requeue %t", requeue))
}

func (c *strictChannel) Nack(tag uint64, multiple, _ bool) error {
	return c.settle(tag, multiple, "returned")
}

func (c *strictChannel) settle(tag uint64, multiple bool, how string) error {
	if c.delay != nil {
		c.delay()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frames++
	if c.settled[tag] != "" {
		c.wrong = fmt.Errorf("tag %d is %s and was %s before", tag, how, c.settled[tag])
	}
	first := tag
	if multiple {
		first = 1
	}
	for each := first; each <= tag; each++ {
		if c.settled[each] != "" {
			continue
		}
		if c.unfinished[each] && how == "acked" {
			c.wrong = fmt.Errorf("tag %d is acked by %d and is at work", each, tag)
		}
		c.settled[each] = how
	}
	return nil
}

// In whatever order deliveries end, each is settled once with its own result, and no unfinished delivery is covered by the ack of
// another.
func TestAckerSettlesEachDeliveryOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 1))
			prefetch := 1 + random.IntN(200)
			channel := &strictChannel{unfinished: map[uint64]bool{}, settled: map[uint64]string{}}
			if seed%3 == 0 {
				channel.delay = func() { time.Sleep(time.Duration(rand.IntN(50)) * time.Microsecond) }
			}
			a := newAcker(channel, prefetch)
			go a.run()
			want := deliverAndSettle(a, channel, random, prefetch)
			if err := a.flush(); err != nil {
				t.Fatal(err)
			}
			a.close()
			if channel.wrong != nil {
				t.Fatal(channel.wrong)
			}
			for tag, how := range want {
				if channel.settled[tag] != how {
					t.Errorf("tag %d is %q, not %q", tag, channel.settled[tag], how)
				}
			}
		})
	}
}

// deliverAndSettle settles deliveries from many goroutines, with up to prefetch deliveries in progress.
func deliverAndSettle(a *acker, channel *strictChannel, random *rand.Rand, prefetch int) map[uint64]string {
	const deliveries = 300
	slots := make(chan struct{}, prefetch)
	want := map[uint64]string{}
	var working sync.WaitGroup
	for tag := uint64(1); tag <= deliveries; tag++ {
		slots <- struct{}{}
		channel.deliver(tag)
		end, pause := random.IntN(10), time.Duration(random.IntN(300))*time.Microsecond
		want[tag] = map[int]string{0: "rejected, requeue false", 1: "rejected, requeue true", 2: "returned"}[end]
		if end > 2 {
			want[tag] = "acked"
		}
		working.Go(func() {
			defer func() { <-slots }()
			time.Sleep(pause)
			channel.finish(tag)
			switch end {
			case 0:
				_ = a.reject(tag, false)
			case 1:
				_ = a.reject(tag, true)
			case 2:
				_ = a.returnMessage(tag)
			default:
				_ = a.ack(tag)
			}
		})
	}
	working.Wait()
	return want
}

func TestAckerSendsAcksTogether(t *testing.T) {
	t.Parallel()
	channel := &strictChannel{unfinished: map[uint64]bool{}, settled: map[uint64]string{}}
	a := newAcker(channel, 100) // 25 acks in one frame
	for tag := uint64(1); tag <= 100; tag++ {
		if err := a.ack(tag); err != nil {
			t.Fatal(err)
		}
	}
	if channel.frames != 4 {
		t.Errorf("%d frames for 100 acks, not 4", channel.frames)
	}
}

func TestAckerAcksFinishedDeliveriesAfterAnUnfinishedOne(t *testing.T) {
	t.Parallel()
	channel := &strictChannel{unfinished: map[uint64]bool{1: true}, settled: map[uint64]string{}}
	a := newAcker(channel, 8) // 2 acks in one frame
	for tag := uint64(2); tag <= 9; tag++ {
		if err := a.ack(tag); err != nil {
			t.Fatal(err)
		}
	}
	if channel.wrong != nil || len(channel.settled) != 8 {
		t.Errorf("%d deliveries are settled, not 8; %v", len(channel.settled), channel.wrong)
	}
}

func TestAClosedAckerSendsNothing(t *testing.T) {
	t.Parallel()
	channel := &strictChannel{unfinished: map[uint64]bool{}, settled: map[uint64]string{}}
	a := newAcker(channel, 1)
	a.close()
	for name, err := range map[string]error{
		"ack": a.ack(1), "reject": a.reject(1, false), "returnMessage": a.returnMessage(1), "flush": a.flush(), "returnAll": a.returnAll(),
	} {
		if !errors.Is(err, errStale) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if channel.frames != 0 {
		t.Errorf("%d frames were sent", channel.frames)
	}
}

func BenchmarkAck(b *testing.B) {
	a := newAcker(noChannel{}, 100)
	b.ReportAllocs()
	for tag := uint64(1); b.Loop(); tag++ {
		_ = a.ack(tag)
	}
}

type noChannel struct{}

func (noChannel) Ack(uint64, bool) error        { return nil }
func (noChannel) Nack(uint64, bool, bool) error { return nil }
func (noChannel) Reject(uint64, bool) error     { return nil }
