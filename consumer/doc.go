// Package consumer consumes the main queue of a Warren topology. A handler returns nil: the message is acked. It returns an error: the
// message waits in the next delay tier and comes again, until the attempts are used up and it goes to the dead-letter queue.
//
//	b, err := consumer.Binding("orders")
//	…
//	orders, err := consumer.New(b.Conn, b.Contract, func(ctx context.Context, m *consumer.Message[Order]) error {
//		return ship(ctx, m.Body)
//	})
//	…
//	err = orders.Run(ctx) // until ctx ends
//
// # What is guaranteed
//
// As long as the broker keeps what it confirmed, no message is lost: it is acked only after the handler returned nil or Discard, or
// after the broker confirmed the copy that takes its place. A clean drain repeats nothing. Messages are handled twice after a crash or a
// lost connection: at most those that were on their way. The copy of a failed message may be there twice if the connection was lost
// before its confirm came; both have the same header x-copy-id if only the connection that publishes was lost. The order of messages is
// kept only with a single active consumer, a concurrency and a prefetch of 1, and the strategy Requeue or None.
//
// # How it is built
//
// A Consumer runs a state machine in one goroutine. Each time that it reaches the broker, it makes a session: one channel with its
// deliveries, workers and acker. A tag is never used on another channel; of handlers that outlive their session, the result is void.
// Copies are published on a connection of their own, which the consumers of a Conn share: a broker that blocks publishers still takes
// acks. What an application publishes has a third connection.
package consumer
