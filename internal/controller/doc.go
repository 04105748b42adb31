// Package controller is the Kubernetes side of Warren: the reconcilers of BrokerConnection and ConsumerQueue, what they
// watch, and the conditions, events and status that they write. What a spec means is decided in package topology, and
// the broker is spoken to by package rabbit; neither happens here.
package controller
