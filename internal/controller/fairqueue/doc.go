// Package fairqueue provides a workqueue for controllers that serves namespaces round-robin. A namespace with thousands of waiting
// resources delays a resource of another namespace by one reconciliation, not by thousands.
//
// A controller uses Queue; order decides which resource comes next. brokers.Limiter limits the workers that wait for a broker.
package fairqueue
