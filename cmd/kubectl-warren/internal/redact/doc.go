// Package redact reduces objects and logs to what `kubectl warren report` may publish. A field is published only if a function here
// names it, and every text loses what looks like a password. It does no I/O. Begin reading at resources.go.
package redact
