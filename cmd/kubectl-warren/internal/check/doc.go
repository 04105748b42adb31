// Package check decides, from answers of the API server, whether Warren works and how a user can fix each fault. It does no I/O. Begin
// reading at result.go.
package check
