// Package letters says in words what the dead-letter API tells of messages, the same on a terminal as in a browser. It does no I/O. All
// that it returns is printable, and nothing of it is marked up.
package letters
