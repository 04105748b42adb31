// Package metrics defines all of Warren's own metrics in one list (definitions.go), from which docs/reference/metrics.md is
// generated. It has only names, labels and meanings. Other packages count and time events, or emit their state when Prometheus
// scrapes.
//
// Labels are words of Warren, or the namespace and name of a resource. They are never chosen freely by a broker or a user.
// Metrics with a namespace and a name are emitted at scrape time, so that their series end with the resource.
package metrics
