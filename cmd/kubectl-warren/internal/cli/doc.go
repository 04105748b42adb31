// Package cli holds the commands of kubectl warren: their flags, their requests to the API server, and their output. Packages without
// I/O compute the output. Begin reading at root.go.
package cli
