// Package amqpconn opens AMQP connections and runs as many operations on their channels as the broker can serve. Brokers are not trusted:
// the package checks each frame, and ends a connection on which a frame arrives that was not requested or exceeds a limit. It does not
// interpret operations.
//
//   - conn.go: one connection and its channels. Begin reading here
//   - pool.go, slots.go, limit.go: operations, and how many of them run at a time
//   - socket.go, protocol.go, frames.go: how the frames of both sides are checked
//   - publisher.go: messages with confirms
//   - table.go: arguments in the types of the AMQP library, and their size
//   - bodies.go: the bodies of messages, within a memory limit
package amqpconn
