// Package testenv is shared by the suites on a real API server and broker. It provides an API server with Warren's CRDs, the
// manager as a process, a World (namespace, virtual host and BrokerConnection) for each test, and matchers for conditions and
// kstatus. Code that only one suite needs belongs into that suite.
//
// Packages controlplane, process and program do not use Ginkgo, because programs use them, too. Brokers are in package brokers,
// and failing proxies in package netfault.
package testenv
