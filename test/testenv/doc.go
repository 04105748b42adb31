// Package testenv is shared by the suites on a real API server and broker. It provides an API server with Warren's CRDs, the
// manager as a process, matchers for conditions and kstatus, and for each test a World: a namespace, a vhost and a BrokerConnection.
// Code that only one suite needs belongs to that suite.
//
// Packages controlplane, process and program do not use Ginkgo, because programs use them, too. Brokers are in package brokers,
// and failing proxies in package netfault.
package testenv
