// Package consumer consumes the main queue of a Warren topology. When a handler returns nil, the consumer acks the message. When
// it returns an error, the message waits in the next delay tier and is delivered again. After the last attempt it goes to the
// dead-letter queue.
//
//	b, err := consumer.LoadBinding("orders")
//	…
//	orders, err := consumer.New(b.Conn, b.Contract, func(ctx context.Context, m *consumer.Message[Order]) error {
//		return ship(ctx, m.Body)
//	})
//	…
//	err = orders.Run(ctx) // until ctx ends
//
// # Guarantees
//
// No message is lost as long as the broker keeps what it confirmed: the consumer acks a message only after the handler returned
// nil or Discard, or after the broker confirmed the copy that replaces it. A drain repeats nothing if all handlers return, and all
// copies are confirmed, within the drain timeout. After a crash or a lost connection, the messages that were unacked are handled
// again. If the connection was lost before a copy's confirm arrived, there may be two copies of the failed message. Both have the
// same header x-copy-id if only the publishing connection was lost. The order of messages is kept only with a single active
// consumer, a concurrency and a prefetch of 1, the strategy None or Requeue without a redelivery delay, and without pauses.
//
// # Implementation
//
// A Consumer runs a state machine in one goroutine. Each connect creates a session: one channel with its deliveries, workers and
// acker. A delivery tag is never used on another channel, and the result of a handler that outlives its session is ignored.
// Copies are published on a second connection, which the consumers of a Conn share, because a broker that blocks publishers still
// accepts acks. Conn.Publish uses a third connection.
package consumer
