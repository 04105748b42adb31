// Package eventfeed receives events from RabbitMQ's plugin rabbitmq_event_exchange about queues, exchanges, bindings and policies of a
// vhost, and keeps the state of the subscription. Package observe decides what an event means for a snapshot. Events can be lost, so Warren
// must work even if none arrives. ADR 0025 has the measurements.
//
//   - subscription.go, change.go, arguments.go: the subscription, and the decoding of events
//   - feed.go: the state of the subscription. Begin reading here
//   - ownchanges.go: events about changes of this process
//   - unannounced.go: changes that a refresh found and no event announced
//   - pendingnotices.go: notices that wait until the queue of a deleted binding is known
package eventfeed
