// Package brokerstest provides a broker in memory for the tests of reconcilers. contract_test.go of package brokers checks that
// it behaves as RabbitMQ does.
package brokerstest
