// Package testenv is what the suites on real parts have in common: an API server with Warren's CRDs, the manager as a
// process, and a World for each test, which is a namespace and a vhost with what leads from the one to the other. Its
// matchers know conditions and kstatus. What only one suite needs is in that suite.
//
// Packages controlplane, process and program need no Ginkgo, for programs use them, too. Brokers are in package
// brokers, and proxies that fail in package netfault.
package testenv
