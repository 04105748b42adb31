// Package consumer tests the consumer library on real brokers.
package consumer
