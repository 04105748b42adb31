// Package events hears from RabbitMQ's plugin rabbitmq_event_exchange what is made and what goes away in a vhost: queues,
// exchanges, bindings and policies. The package decodes events and keeps their order; what an event means for a snapshot is
// decided in package rabbit. Events can be missed, so nothing may rest on having heard one. ADR 0025 has the measurements.
package events
