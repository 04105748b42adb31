// Package redact reduces objects and logs to what `kubectl warren report` may publish. It publishes only fields that a function here
// names, and removes what looks like a password from each text. It does no I/O. Begin reading at resources.go.
package redact
