// Package deadletter decides what a dead letter is and what is done with the message: where the message came from and why it died,
// whether somebody selected the message, and which headers the message has when it is moved back.
//
// The package is pure: there is no context, no I/O and no clock here.
package deadletter
