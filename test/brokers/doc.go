// Package brokers gives tests and programs access to real RabbitMQ brokers: their addresses, a vhost or user for one test,
// and functions to inspect and change them. It shares no code with internal/rabbit.
package brokers
