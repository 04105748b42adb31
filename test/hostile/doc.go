// Package hostile has a management API and an AMQP server that misbehave, in each way that a broken or hostile server can. They answer a
// client's requests as RabbitMQ 4.3 does until the moment that a test is about.
package hostile
