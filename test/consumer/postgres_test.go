package consumer_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/lib/pq" // the driver "postgres"
	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/consumertest"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/netfault"
)

// row is the body of a message.
type row struct {
	Number   int    `json:"number"`
	Customer string `json:"customer"`
}

// database returns the PostgreSQL of hack/postgres.sh, with tables of its own.
func database(tb testing.TB) *sql.DB {
	tb.Helper()
	address := os.Getenv("WARREN_POSTGRES")
	if address == "" {
		tb.Skip("needs PostgreSQL: hack/postgres.sh go test …, or make bench-batch")
	}
	open := func(address string) *sql.DB {
		db, err := sql.Open("postgres", address)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = db.Close() })
		return db
	}
	schema := "test" + strings.ToLower(rand.Text())
	if _, err := open(address).Exec("CREATE SCHEMA " + schema); err != nil {
		tb.Fatal(err)
	}
	db := open(address + " search_path=" + schema)
	db.SetMaxIdleConns(20)
	if _, err := db.Exec(`
		CREATE TABLE inbox (queue text, message_id text, handled timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (queue, message_id));
		CREATE TABLE orders (number bigint NOT NULL, customer text NOT NULL)`); err != nil {
		tb.Fatal(err)
	}
	return db
}

func (w *world) publishRows(count int) {
	w.tb.Helper()
	connection, err := w.Connect("producer")
	w.check(err)
	defer connection.Close()
	channel, err := connection.Channel()
	w.check(err)
	w.check(channel.Confirm(false))
	var last *amqp.DeferredConfirmation
	for number := range count {
		body, err := json.Marshal(row{number, "a customer"})
		w.check(err)
		last, err = channel.PublishWithDeferredConfirm("", "orders", true, false,
			amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: fmt.Sprint(number), Body: body})
		w.check(err)
	}
	last.Wait()
}

// BenchmarkBatch inserts messages into PostgreSQL: with one INSERT for each, one and ten at a time, and with one for each batch of
// 100. One iteration runs all of them.
func BenchmarkBatch(b *testing.B) {
	db, w := database(b), newWorld(b, brokers.Newest(b), none)
	single := func(concurrency int) func(*handled) (*consumer.Consumer, error) {
		return func(counted *handled) (*consumer.Consumer, error) {
			return consumer.New(w.conn(), w.contract, func(ctx context.Context, m *consumer.Message[row]) error {
				_, err := db.ExecContext(ctx, `INSERT INTO orders (number, customer) VALUES ($1, $2)`, m.Body.Number, m.Body.Customer)
				if err == nil {
					counted.add()
				}
				return err
			}, quiet, consumer.WithConcurrency(concurrency))
		}
	}
	batches := func(counted *handled) (*consumer.Consumer, error) {
		return consumer.NewBatch(w.conn(), w.contract, 100, time.Second, func(ctx context.Context, batch *consumer.Batch[row]) error {
			err := insertRows(ctx, db, batch.Messages...)
			for range batch.Messages {
				if err == nil {
					counted.add()
				}
			}
			return err
		}, quiet)
	}
	measure := func(messages int, create func(*handled) (*consumer.Consumer, error)) float64 {
		w.publishRows(messages)
		counted := &handled{of: int64(messages), done: make(chan struct{})}
		made, err := create(counted)
		w.check(err)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- made.Run(ctx) }()
		<-counted.done
		cancel()
		w.check(<-ended)
		return math.Log(float64(messages) / time.Duration(counted.last.Load()-counted.first.Load()).Seconds())
	}
	one, ten, batch := 0.0, 0.0, 0.0
	for b.Loop() {
		one += measure(1000, single(1))
		ten += measure(10_000, single(10))
		batch += measure(10_000, batches)
	}
	n := float64(b.N)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(math.Exp(one/n), "single-msg/s")
	b.ReportMetric(math.Exp(ten/n), "ten-msg/s")
	b.ReportMetric(math.Exp((batch-one)/n), "batch/single")
	b.ReportMetric(math.Exp((batch-ten)/n), "batch/ten")
}

// insertRows is the recipe of docs/consumer/database.md without ON CONFLICT, so that a table shows rows that were inserted twice.
func insertRows(ctx context.Context, db *sql.DB, messages ...*consumer.Message[row]) error {
	rows := make([]row, len(messages))
	for i, m := range messages {
		rows[i] = m.Body
	}
	document, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, `INSERT INTO orders (number, customer)
		SELECT number, customer FROM json_to_recordset($1) AS o(number bigint, customer text)`, string(document))
	return err
}

// insertOnce is the recipe of docs/consumer/database.md.
func insertOnce(ctx context.Context, db *sql.DB, m *consumer.Message[row]) error {
	if m.ID() == "" {
		return consumer.Permanent(errors.New("the message has no message-id"))
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	inserted, err := tx.ExecContext(ctx,
		`INSERT INTO inbox (queue, message_id) VALUES ($1, $2) ON CONFLICT DO NOTHING`, m.Queue(), m.ID())
	if err != nil {
		return err
	}
	if count, err := inserted.RowsAffected(); err != nil || count == 0 { // handled before
		return err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO orders (number, customer) VALUES ($1, $2)`, m.Body.Number, m.Body.Customer); err != nil {
		return err
	}
	return tx.Commit()
}

// With an inbox in the transaction of the handler, a message that is delivered several times has one effect.
func TestAnInboxHandlesEachMessageOnce(t *testing.T) {
	t.Parallel()
	const messages, cuts = 2000, 3
	db, w, g := database(t), newWorld(t, brokers.Newest(t), publish), NewWithT(t)
	w.publishRows(messages)
	proxy, calls := netfault.NewProxy(t, w.Broker.AMQPURI), atomic.Int64{}
	made, err := consumer.New(consumer.NewConn(consumer.URI(w.uri(proxy.Address))), w.contract, func(ctx context.Context, m *consumer.Message[row]) error {
		calls.Add(1)
		return insertOnce(context.WithoutCancel(ctx), db, m) // commits although the connection to the broker is lost
	}, quiet)
	g.Expect(err).NotTo(HaveOccurred())
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- made.Run(ctx) }()
	count := func(query string) func() (n int, err error) {
		return func() (n int, err error) { return n, db.QueryRow(query).Scan(&n) }
	}
	for cut := 1; cut <= cuts; cut++ {
		g.Eventually(calls.Load).WithTimeout(deadline.For(time.Minute)).WithPolling(time.Millisecond).Should(BeNumerically(">=", messages*cut/(cuts+2)))
		proxy.Cut()
	}
	g.Eventually(func() int { return w.Ready("orders") }).WithTimeout(deadline.For(time.Minute)).Should(BeZero())
	g.Eventually(count(`SELECT count(*) FROM orders`)).WithTimeout(deadline.For(30 * time.Second)).Should(Equal(messages))
	stop()
	g.Eventually(ended).WithTimeout(deadline.For(10 * time.Second)).Should(Receive(BeNil()))
	g.Expect(count(`SELECT count(DISTINCT number) FROM orders`)()).To(Equal(messages))
	g.Expect(count(`SELECT count(*) FROM orders`)()).To(Equal(messages))
	t.Logf("%d messages, %d calls of the handler", messages, calls.Load())
}

// An exchange can route a message to several queues. The inbox of their consumers is one table, and each consumer handles the message once.
func TestAnInboxOfSeveralQueues(t *testing.T) {
	t.Parallel()
	db, g := database(t), NewWithT(t)
	for _, queue := range []string{"orders", "mails"} {
		m := consumertest.Message(contract.Default(queue), row{Number: 7}, consumertest.ModifyDelivery(func(raw *amqp.Delivery) { raw.MessageId = "7" }))
		for range 2 { // delivered again
			g.Expect(insertOnce(t.Context(), db, m)).To(Succeed())
		}
	}
	rows := 0
	g.Expect(db.QueryRow(`SELECT count(*) FROM orders`).Scan(&rows)).To(Succeed())
	g.Expect(rows).To(Equal(2))
}

// A row that PostgreSQL refuses fails the whole batch. Then the handler inserts one by one, and only the message of that row fails.
func TestABatchWithARowThatIsRefused(t *testing.T) {
	t.Parallel()
	db, w, g := database(t), newWorld(t, brokers.Newest(t), none), NewWithT(t)
	_, err := db.Exec(`ALTER TABLE orders ADD CHECK (number <> 50)`)
	g.Expect(err).NotTo(HaveOccurred())
	w.publishRows(100)
	made, err := consumer.NewBatch(w.conn(), w.contract, 100, time.Second, func(ctx context.Context, b *consumer.Batch[row]) error {
		err := insertRows(ctx, db, b.Messages...)
		if err == nil || len(b.Messages) == 1 {
			return err
		}
		for _, m := range b.Messages { // the row of one of them may be the reason
			b.SetResult(m, insertRows(ctx, db, m))
		}
		return nil
	}, quiet)
	g.Expect(err).NotTo(HaveOccurred())
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- made.Run(ctx) }()
	g.Expect(w.deadLetters(1)).To(HaveLen(1))
	stop()
	g.Eventually(ended).WithTimeout(deadline.For(10 * time.Second)).Should(Receive(BeNil()))
	inserted := 0
	g.Expect(db.QueryRow(`SELECT count(*) FROM orders`).Scan(&inserted)).To(Succeed())
	g.Expect(inserted).To(Equal(99))
}
