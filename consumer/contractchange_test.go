package consumer_test

import (
	"context"
	"io"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/consumer/internal/memory"
)

// A contract may change while a handler runs. The routes of the former contract may lead nowhere, and an exchange that does not exist
// costs all copies their channel.
func TestAFailureIsSettledByTheContractInForce(t *testing.T) {
	t.Parallel()
	enabled := contract.Default("orders")
	enabled.Strategy, enabled.Tiers = contract.StrategyNone, nil
	disabled := enabled
	disabled.Park, disabled.DeadLetterQueue, disabled.RejectDeadLetters = nil, "", false
	ownExchange := contract.Default("orders")
	ownExchange.Tiers = []contract.Tier{{Delay: contract.Duration(30 * time.Second), Route: contract.Route{Exchange: "orders.retry"}}}
	byDefaultExchange := contract.Default("orders")
	byDefaultExchange.Tiers = byDefaultExchange.Tiers[:1]
	for name, test := range map[string]struct {
		before, after contract.Contract
		removed       string // the exchange
		queue         string // of the failed message
	}{
		"a dead-letter queue is added": {disabled, enabled, "no exchange", "orders.dlq"},
		"a retry exchange is removed":  {ownExchange, byDefaultExchange, "orders.retry", "orders.retry.30s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "contract.json")
			writeContract(t, path, test.before)
			synctest.Test(t, func(t *testing.T) {
				var refusals []error
				observe := consumer.WithObserver(consumer.Observer{Published: func(p consumer.Publication) { refusals = append(refusals, p.Err) }})
				b := startWith(t, test.before, func(*memory.Broker) {},
					func(conn *consumer.Conn, _ contract.Source, options ...consumer.Option) (*consumer.Consumer, error) {
						return consumer.New(conn, contract.File(path), func(context.Context, *consumer.Message[string]) error {
							time.Sleep(time.Minute)
							return io.EOF
						}, options...)
					}, observe)
				b.send(t, "a")
				synctest.Wait()
				b.Declare(test.after)
				writeContract(t, path, test.after)
				pass(31 * time.Second) // the contract is read every 30 s
				b.DeleteExchange(test.removed)
				pass(30 * time.Second)
				equal(t, "in "+test.queue, 1, len(b.Messages(test.queue)))
				equal(t, "errors of publications", []error{nil}, refusals)
				equal(t, "Run", nil, b.end())
			})
		})
	}
}
