// Command bench measures the manager with many ConsumerQueues on a real kube-apiserver with etcd and a private RabbitMQ, with the
// manager as a process. "make bench" starts it. It prints one table and writes it to docs/benchmarks.md. It never fails because
// of a time.
//
// Each number of ConsumerQueues is measured in each layout, with new servers. First a bare program measures how long the broker
// takes for the same objects, and the API server for the same writes. Then follow the phases: create, idle, edit, heal, restart,
// takeover, tiers, delete. It needs Linux, because it reads the resource usage of processes from /proc.
package main
