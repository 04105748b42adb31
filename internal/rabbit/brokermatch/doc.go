// Package brokermatch keeps the AMQP connection of a vhost open, and proves that it leads to the broker of the management API. Nothing is
// read or written through a connection without that proof.
//
// Begin with match.go. Its files:
//
//   - supervisor.go: connects AMQP, and offers each connection to the Matcher
//   - match.go: the Matcher accepts or refuses an offered connection
//   - seconddial.go: opens more AMQP connections to the same cluster
//   - place.go: the proof that two connections lead to one vhost
package brokermatch
