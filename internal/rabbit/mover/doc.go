// Package mover moves messages out of a queue without losing any, deletes selected messages, and browses messages without changing their
// order. It acknowledges a message after the broker has confirmed the copy.
//
// A move has one goroutine, which owns all state. It has its own AMQP connection, so that a broker that blocks publishers does not stop
// other users. Messages that are not moved are held until the end of a pass, and return in their order when their channels are closed. No
// other way preserves the order of a quorum queue in all versions of RabbitMQ.
//
//   - mover.go: the configuration, and the sequence of passes. Begin reading here
//   - pass.go, clock.go: one connection, from the first message to the last
//   - intake.go, outlet.go: the channels for messages and for copies
//   - publish.go, faults.go: copies and their confirms, and errors of channels and connections
//   - decide.go: which messages are moved, and which are held
//   - certain.go: how many messages the broker has certainly removed
//   - pace.go: the rate, the window and the prefetch
//   - depth.go: how full the destination is
//   - counter.go: how many messages the source has before a move
//   - browse.go: reads messages and returns them in their order
package mover
