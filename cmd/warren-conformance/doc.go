// Command warren-conformance starts a program that consumes from RabbitMQ, in whatever language it is written, breaks what the
// program depends on, and reports which messages the program lost or handled twice.
//
//	warren-conformance [-strategy Publish] [-only stale-acks,drain-repeats] -- node dist/main.js
//
// docs/consumer/any-language.md describes the protocol between this command and the program, and lists the pitfalls.
//
// Begin reading in pitfalls.go, which is the table of pitfalls. A trial (trial.go) is one pitfall's vhost, topology, proxy and
// program. The functions of the table are in handling.go, copies.go, connections.go and ending.go; run.go runs them and report.go
// prints what came out. This package must not import the consumer library: it must know nothing of how a program works.
package main
