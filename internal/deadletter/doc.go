// Package deadletter models dead letters: their origin and reason, the selection of dead letters by users, and the headers of a
// dead letter that is moved back.
//
// The package is pure: it has no context, no I/O and no clock. Begin reading at message.go.
package deadletter
