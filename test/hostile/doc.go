// Package hostile has a management API that misbehaves, in each way that a broken or hostile server can. It answers a real
// broker's requests as RabbitMQ 4.3 does until the moment that a test is about.
package hostile
