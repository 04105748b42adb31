package consumer_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
)

// Order is the message of a shop.
type Order struct {
	Number int `json:"number"`
}

var errNoSuchCustomer = errors.New("no such customer")

func ship(context.Context, Order) error { return nil }

// The program consumes until SIGTERM and then drains. Run returns nil after a clean drain.
func Example() {
	run := func() error {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
		defer stop()
		binding, err := consumer.LoadBinding("orders")
		if err != nil {
			return err
		}
		orders, err := consumer.New(binding.Conn, binding.Contract, func(ctx context.Context, m *consumer.Message[Order]) error {
			return ship(ctx, m.Body)
		})
		if err != nil {
			return err
		}
		return orders.Run(ctx)
	}
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func ExampleNew() {
	conn := consumer.NewConn(consumer.URI(os.Getenv("AMQP_URL")))
	orders, err := consumer.New(conn, contract.Default("orders"), func(ctx context.Context, m *consumer.Message[Order]) error {
		return ship(ctx, m.Body)
	}, consumer.WithConcurrency(4), consumer.WithTimeout(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(orders.Health().Live)
}

// The handler's result decides what happens to the message.
func ExampleHandler() {
	var handle consumer.Handler[Order] = func(ctx context.Context, m *consumer.Message[Order]) error {
		err := ship(ctx, m.Body)
		switch {
		case errors.Is(err, errNoSuchCustomer):
			return consumer.Permanent(err) // to the dead-letter queue, without another attempt
		case errors.Is(err, sql.ErrConnDone):
			return consumer.RetryAfter(5*time.Minute, err)
		}
		return err // nil: ack; an error: wait in the next delay tier
	}
	_ = handle
}

// The handler inserts up to 100 orders with one statement. If a row is refused, it inserts one by one, so that only that order fails.
func ExampleNewBatch() {
	var db *sql.DB
	insert := func(ctx context.Context, messages ...*consumer.Message[Order]) error {
		orders := make([]Order, len(messages))
		for i, m := range messages {
			orders[i] = m.Body
		}
		document, err := json.Marshal(orders)
		if err != nil {
			return err
		}
		_, err = db.ExecContext(ctx, `INSERT INTO orders (number)
			SELECT number FROM json_to_recordset($1) AS o(number bigint) ON CONFLICT DO NOTHING`, string(document))
		return err
	}
	_, err := consumer.NewBatch(consumer.NewConn(nil), contract.Default("orders"), 100, time.Second,
		func(ctx context.Context, b *consumer.Batch[Order]) error {
			err := insert(ctx, b.Messages...)
			if err == nil || len(b.Messages) == 1 {
				return err
			}
			for _, m := range b.Messages {
				b.SetResult(m, insert(ctx, m))
			}
			return nil
		})
	fmt.Println(err)
	// Output: <nil>
}

// The inbox records the message in the transaction of the handler, so that a message that is delivered again has no second effect.
func ExampleNew_inbox() {
	var db *sql.DB
	handle := func(ctx context.Context, m *consumer.Message[Order]) error {
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
		if count, err := inserted.RowsAffected(); err != nil || count == 0 {
			return err // nil: the message was handled before
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO orders (number) VALUES ($1)`, m.Body.Number); err != nil {
			return err
		}
		return tx.Commit()
	}
	_, err := consumer.New(consumer.NewConn(nil), contract.Default("orders"), handle)
	fmt.Println(err)
	// Output: <nil>
}

// When the handler has failed five times in a row, messages wait in the queue, and the consumer tries one every two seconds.
func ExampleWithBreaker() {
	_, err := consumer.New(consumer.NewConn(nil), contract.Default("orders"), func(ctx context.Context, m *consumer.Message[Order]) error {
		return ship(ctx, m.Body)
	}, consumer.WithBreaker(5, 2*time.Second))
	fmt.Println(err)
	// Output: <nil>
}

// A request to this server pauses the consumer during maintenance.
func ExampleConsumer_Pause() {
	var orders *consumer.Consumer
	http.HandleFunc("POST /pause", func(http.ResponseWriter, *http.Request) { orders.Pause() })
	http.HandleFunc("POST /resume", func(http.ResponseWriter, *http.Request) { orders.Resume() })
}

// A long handler saves its progress when a drain begins, and the message is delivered again.
func ExampleDraining() {
	var (
		parts []Order
		save  func(done int) error
	)
	var handle consumer.Handler[Order] = func(ctx context.Context, _ *consumer.Message[Order]) error {
		for done, part := range parts {
			select {
			case <-consumer.Draining(ctx):
				if err := save(done); err != nil {
					return err
				}
				return consumer.Defer(0)
			default:
			}
			if err := ship(ctx, part); err != nil {
				return err
			}
		}
		return nil
	}
	_ = handle
}

func ExampleRun() {
	var orders, invoices *consumer.Consumer
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := consumer.Run(ctx, orders, invoices)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// Decode handles messages that are not JSON.
func ExampleDecode() {
	decode := func(d *consumer.Delivery) (order Order, err error) {
		err = xml.Unmarshal(d.Raw.Body, &order)
		return order, err
	}
	handle := consumer.Decode(decode, func(ctx context.Context, m *consumer.Message[Order]) error { return ship(ctx, m.Body) })
	_, err := consumer.New(consumer.NewConn(nil), contract.Default("orders"), handle)
	fmt.Println(err)
	// Output: <nil>
}

// A Mux handles several types of messages in one queue.
func ExampleMux() {
	mux := consumer.NewMux(consumer.ByType)
	consumer.AddHandler(mux, "order.placed", func(ctx context.Context, m *consumer.Message[Order]) error { return ship(ctx, m.Body) })
	consumer.AddHandler(mux, "note", func(context.Context, *consumer.Message[string]) error { return nil })
	_, err := consumer.New(consumer.NewConn(nil), contract.Default("orders"), mux.Handle)
	fmt.Println(err)
	// Output: <nil>
}

// The middleware makes some errors permanent.
func ExampleWithMiddleware() {
	permanent := func(next consumer.HandleFunc) consumer.HandleFunc {
		return func(ctx context.Context, d *consumer.Delivery) error {
			err := next(ctx, d)
			if errors.Is(err, sql.ErrNoRows) {
				return consumer.Permanent(err)
			}
			return err
		}
	}
	_ = consumer.WithMiddleware(permanent)
}

// The hook sets the property app-id of each message that the program publishes.
func ExampleWithPublishHook() {
	conn := consumer.NewConn(consumer.URI(os.Getenv("AMQP_URL")), consumer.WithPublishHook(
		func(_ context.Context, _, _ string, message *consumer.Publishing) { message.AppId = "shop" }))
	defer conn.Close()
}

// A statistic that cannot be written is not worth a second attempt.
func ExampleAckAlways() {
	count := func(context.Context, *consumer.Message[Order]) error { return sql.ErrConnDone }
	_, err := consumer.New(consumer.NewConn(nil), contract.Default("orders"), count, consumer.WithMiddleware(consumer.AckAlways))
	fmt.Println(err)
	// Output: <nil>
}

// The limiter lets all consumers of the process handle at most three messages at a time.
func ExampleWithLimiter() {
	slots := make(chan struct{}, 3)
	_ = consumer.WithLimiter(consumer.LimiterFunc(func(ctx context.Context) (release func(), err error) {
		select {
		case slots <- struct{}{}:
			return func() { <-slots }, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}))
}

func ExampleWithObserver() {
	_ = consumer.WithObserver(consumer.Observer{
		State:   func(to consumer.Transition) { log.Println(to.Queue, to.From, to.To, to.Err) },
		Settled: func(end consumer.Settlement) { log.Println(end.Delivery, end.Result, end.Took) },
		Stuck:   func(handler consumer.StuckHandler) { log.Println(handler.Delivery, handler.Took) },
	})
}

func ExampleHealthHandler() {
	var orders *consumer.Consumer
	server := &http.Server{Addr: ":8080", Handler: consumer.HealthHandler(orders), ReadHeaderTimeout: time.Second}
	go func() { log.Print(server.ListenAndServe()) }()
}

// The handler waits for the broker's confirm before it returns nil.
func ExampleConn_Publish() {
	conn := consumer.NewConn(consumer.URI(os.Getenv("AMQP_URL")))
	var handle consumer.Handler[Order] = func(ctx context.Context, m *consumer.Message[Order]) error {
		return conn.Publish(ctx, "shop", "order.shipped", consumer.Publishing{
			MessageId: fmt.Sprintf("order %d shipped", m.Body.Number), Headers: m.ForwardHeaders(), Body: m.Raw.Body,
		})
	}
	_ = handle
}

// Tests and middleware can inspect the result of a handler.
func ExampleVerdict() {
	err := fmt.Errorf("ship: %w", consumer.Permanent(errNoSuchCustomer))
	verdict := &consumer.Verdict{}
	if errors.As(err, &verdict) {
		fmt.Println(verdict.Result)
	}
	// Output: permanent
}

// table stores the keys of messages in a table of the application.
type table struct{ db *sql.DB }

func (t table) Done(ctx context.Context, key string) (done bool, err error) {
	err = t.db.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM done WHERE key = $1)", key).Scan(&done)
	return done, err
}

func (t table) Mark(ctx context.Context, key string) error {
	_, err := t.db.ExecContext(ctx, "INSERT INTO done VALUES ($1) ON CONFLICT DO NOTHING", key)
	return err
}

func ExampleDedupe() {
	var db *sql.DB
	_ = consumer.WithMiddleware(consumer.Dedupe(table{db}, consumer.ByMessageID))
}

// An order that was cancelled in the meantime needs no further attempt and no dead letter.
func ExampleDiscard() {
	errCancelled := errors.New("the order was cancelled")
	err := consumer.Discard(errCancelled)
	fmt.Println(errors.Is(err, errCancelled), consumer.Discard(nil))
	// Output: true <nil>
}

// The error of a database may contain a value of the message. The copy gets only the type of the error.
func ExampleWithFailureText() {
	_ = consumer.WithFailureText(func(err error) string { return fmt.Sprintf("%T", err) })
}

// The broker has a certificate of a private authority.
func ExampleWithTLS() {
	connect := func() (*consumer.Conn, error) {
		authority, err := os.ReadFile("/etc/rabbitmq/ca.crt")
		if err != nil {
			return nil, err
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(authority) {
			return nil, errors.New("ca.crt has no certificate")
		}
		return consumer.NewConn(consumer.URI("amqps://rabbit:5671/shop"), consumer.WithTLS(&tls.Config{RootCAs: roots})), nil
	}
	_ = connect
}

func ExampleURI() {
	conn := consumer.NewConn(consumer.URI("amqp://user:password@rabbit:5672/shop"), consumer.WithName("orders"))
	defer conn.Close()
}

// The consumer reads the file again every 30 s.
func ExampleNew_contractFile() {
	conn := consumer.NewConn(consumer.URI(os.Getenv("AMQP_URL")))
	orders, err := consumer.New(conn, contract.File("/etc/warren/contract.json"),
		func(context.Context, *consumer.Message[string]) error { return nil })
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err = orders.Run(ctx) // waits until the file exists
	stop()
	if err != nil {
		log.Fatal(err)
	}
}
