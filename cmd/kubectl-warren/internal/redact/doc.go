// Package redact reduces objects and logs to the parts that `kubectl warren report` may publish. It publishes only fields that a function
// here names, and redacts text that looks like a password. It does no I/O. Begin reading at resources.go.
package redact
