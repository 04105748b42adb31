// Bench measures the manager with many ConsumerQueues on real parts: a kube-apiserver with etcd, a RabbitMQ of its own and the
// manager as a process. It is started by "make bench", prints one table and writes it to docs/benchmarks.md. Nothing here passes
// or fails by a time.
//
// Each number of ConsumerQueues is measured in each layout, with everything fresh: first what the broker takes for the same
// objects from a bare program, and the API server for the same writes, then the phases of a life: create, idle, edit, heal, restart,
// takeover, tiers, delete. It needs Linux: what processes use is read from /proc.
package main
