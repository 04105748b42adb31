// Package check decides from what the API server answered whether Warren works, and what a user can do about each fault. It does no
// I/O. Begin reading at result.go.
package check
