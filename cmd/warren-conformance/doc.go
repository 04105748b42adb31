// Command warren-conformance starts a program that consumes from RabbitMQ, in any language, breaks what the program depends on,
// and reports which messages the program lost or handled twice.
//
//	warren-conformance [-strategy Publish] [-only stale-acks,drain-repeats] [-follows-pause] -- node dist/main.js
//
// docs/consumer/any-language.md describes the protocol between this command and the program, and lists the pitfalls.
//
// Begin reading in pitfalls.go, the table of pitfalls. A trial (trial.go) has the virtual host, topology, proxy and program of
// one pitfall, and evaluate.go counts its mistakes. The functions of the table are in handling.go, copies.go, republishing.go,
// connections.go, pausing.go and ending.go. run.go runs them, and report.go prints the results. This package must not import the
// consumer library, because it must not depend on how a program works.
package main
