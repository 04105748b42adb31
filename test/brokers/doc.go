// Package brokers gives tests and programs what they need of real RabbitMQ brokers: where they are, a vhost or a user for one
// test alone, and ways to look and to meddle that share no code with internal/rabbit.
package brokers
