// Package cli holds the commands of kubectl warren: their flags, their requests to the API server, and their output. Packages without
// I/O compute the output. Begin reading at root.go. A command is a function that returns a cobra.Command. A command with several flags
// also has a struct with these flags and a method run.
package cli
