// Package metrics defines every metric of Warren's own, in one list (definitions.go), from which docs/reference/metrics.md is
// generated. It is a leaf: it knows names, labels and meanings. The values come from the packages that know the facts: they
// count and time what happens, or emit the state of what they keep when Prometheus asks.
//
// Labels are words of Warren's, or the namespace and name of a resource; never what a broker or a user can make up. What is
// labelled with a namespace and a name is emitted when Prometheus asks, so its series go away with the resource.
package metrics
