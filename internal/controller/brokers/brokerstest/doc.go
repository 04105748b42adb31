// Package brokerstest has a broker in memory for the tests of reconcilers. A contract, which real brokers keep as well, says how
// it behaves: see contract_test.go of package brokers.
package brokerstest
