// Package scale measures the manager with many ConsumerQueues: a real kube-apiserver, the newest RabbitMQ, the manager as a
// process. Its benchmarks print seconds and CPU seconds; nothing here passes or fails by a time.
package scale
