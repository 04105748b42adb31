// Package printable writes texts of messages so that whoever reads them sees all that is there, and nothing that pretends to be something
// else. What messages hold is written by whoever publishes.
package printable
