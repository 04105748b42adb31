// The example publishes and ships orders. Most orders ship on the first attempt, some on the third, and some never. At the end the
// example lists the dead letters.
//
//	AMQP_URL=amqp://guest:guest@localhost:5672/ WARREN_CONTRACT=contract.json go run . [-chaos] [-publish=false]
//
// Ctrl-C drains.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
)

// order is the message.
type order struct {
	Number int `json:"number"`
	Amount int `json:"amount"`
}

// Amounts that do not ship on the first attempt.
const (
	lateAmount    = 13 // ships on the third attempt
	refusedAmount = 66 // never ships
)

// ship is the handler.
func ship(_ context.Context, m *consumer.Message[order]) error {
	say("order %d, attempt %d of %d", m.Body.Number, m.Attempt(), m.MaxAttempts())
	switch {
	case m.Body.Amount == refusedAmount:
		return consumer.Permanent(errors.New("nobody ships 66 of anything"))
	case m.Body.Amount == lateAmount && m.Attempt() < 3:
		return errors.New("no stock yet")
	}
	return nil
}

func main() {
	chaos := flag.Bool("chaos", false, "Close the connections every few seconds.")
	publishes := flag.Bool("publish", true, "Publish an order each second.")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *chaos, *publishes); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

func run(ctx context.Context, chaos, publishes bool) error {
	connections := &connections{}
	binding, err := consumer.LoadBinding("shipping", consumer.WithDialer(connections.dial))
	if err != nil {
		return err
	}
	current, err := binding.Contract.Load(ctx)
	if err != nil {
		return err
	}
	observer := consumer.Observer{
		State: func(to consumer.Transition) { say("state: %s", to.To) },
		Settled: func(s consumer.Settlement) {
			if s.Err != nil {
				say("    %v: %s", s.Err, carriedOut(s.Action))
			}
		},
	}
	shipping, err := consumer.New(binding.Conn, binding.Contract, ship,
		consumer.WithObserver(observer), consumer.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	if publishes {
		running.Go(func() { publish(ctx, binding.Conn, current.Queue) })
	}
	if chaos {
		running.Go(func() { connections.cutPeriodically(ctx) })
	}
	err = shipping.Run(ctx)
	running.Wait()
	binding.Conn.Close()
	return errors.Join(err, showDeadLetters(current.DeadLetterQueue))
}

func carriedOut(action contract.Action) string {
	if action.Route == nil {
		return string(action.Verb)
	}
	return fmt.Sprintf("%s to %s", action.Verb, action.Route.RoutingKey+action.Route.Exchange)
}

// publish publishes an order each second, and sometimes a body that is not an order.
func publish(ctx context.Context, conn *consumer.Conn, queue string) {
	for number := 1; ctx.Err() == nil; number++ {
		amount := map[int]int{3: lateAmount, 6: refusedAmount}[number%10]
		body, err := json.Marshal(order{Number: number, Amount: amount})
		if number%10 == 9 {
			body = []byte("{")
		}
		if err == nil {
			err = conn.Publish(ctx, "", queue, consumer.Publishing{MessageId: fmt.Sprint("order ", number), Body: body})
		}
		if err != nil && ctx.Err() == nil {
			say("order %d: %v", number, err)
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// showDeadLetters lists the dead letters and leaves them in the queue.
func showDeadLetters(queue string) error {
	connection, err := amqp.Dial(os.Getenv("AMQP_URL"))
	if err != nil {
		return fmt.Errorf("browse the dead letters: %w", err)
	}
	defer connection.Close() //nolint:errcheck // the broker requeues the messages
	channel, err := connection.Channel()
	if err != nil {
		return fmt.Errorf("browse the dead letters: %w", err)
	}
	say("dead letters in %s:", queue)
	for {
		message, found, err := channel.Get(queue, false)
		if err != nil {
			return fmt.Errorf("browse the dead letters: %w", err)
		}
		if !found {
			return nil
		}
		say("    %s %s: %s: %s", message.MessageId, message.Body, message.Headers[contract.HeaderFailureKind],
			message.Headers[contract.HeaderFailureMessage])
	}
}

// connections are the open connections.
type connections struct {
	mu   sync.Mutex
	open []net.Conn
}

func (c *connections) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.open = append(c.open, conn)
	}
	return conn, err
}

func (c *connections) cutPeriodically(ctx context.Context) {
	for {
		select {
		case <-time.After(3*time.Second + rand.N(4*time.Second)):
		case <-ctx.Done():
			return
		}
		c.mu.Lock()
		say("chaos: closed %d connections", len(c.open))
		for _, conn := range c.open {
			_ = conn.Close() // may already be closed
		}
		c.open = nil
		c.mu.Unlock()
	}
}

func say(format string, values ...any) {
	fmt.Printf("%s  %s\n", time.Now().Format("15:04:05"), fmt.Sprintf(format, values...))
}
