// Package mover moves messages out of a queue without losing one, deletes selected messages, and browses messages without changing
// their order. It acknowledges a message after the broker has confirmed the copy.
//
// A move has one goroutine, which owns all state. It has its own AMQP connection, so that a broker that blocks publishers does not
// stop other users. Messages that stay are held until the end of a pass, and return in their order when their channels are closed. Only
// this way preserves the order of a quorum queue in all versions of RabbitMQ.
//
//   - mover.go: the configuration, and the sequence of passes
//   - backlog.go: how many messages a queue has
//   - browse.go: browsing without moving messages
//   - pass.go: one connection, from the first message to the last
//   - publish.go: copies and their confirms
//   - memory.go: messages whose bodies were dropped
//   - clock.go: periodic work
//   - certain.go: how many messages the broker has removed for certain
//   - faults.go: refused copies, and channels and connections that the broker closes
//   - intake.go: the channels that messages are taken on
//   - outlet.go: the channel that copies are published on
//   - pace.go: the rate, the window and the prefetch
package mover
