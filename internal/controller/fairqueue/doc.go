// Package fairqueue provides the queue of a controller. The queue serves namespaces round-robin, so that a namespace with thousands of
// waiting resources delays a resource of another namespace by one reconciliation, not by thousands.
//
// Queue is what a controller uses; order decides which resource comes next. Workers that wait for a broker are the concern of
// brokers.Limiter.
package fairqueue
