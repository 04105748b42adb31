// Package transfer moves messages out of a queue without losing one, deletes those that somebody selected, and looks at messages without
// changing their order. A message that is moved is acknowledged once the broker has confirmed its copy.
//
// A Transfer has one goroutine, which owns all state, and an AMQP connection of its own, so that a broker that blocks publishers does not
// stop others. Messages that stay are held until the end of a pass, and come back in their order when their channels are closed: that is
// the one way in which no version of RabbitMQ changes the order of a quorum queue.
//
//   - transfer.go: what to move, and the passes
//   - look.go: to look at messages, and move none
//   - pass.go: one connection, from the first message to the last
//   - clock.go: what the clock asks for in between
//   - certain.go: how many messages the broker has removed for certain
//   - faults.go: copies that the broker refuses, and channels and connections that it closes
//   - intake.go: the channels that messages are taken on
//   - outlet.go: the channel that copies are published on
//   - pace.go: how many messages, how fast
package transfer
