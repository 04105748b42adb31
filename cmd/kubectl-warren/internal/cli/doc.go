// Package cli is the commands of kubectl warren: their flags, what they ask of the API server, and what they print. What they print is
// decided in packages without I/O.
package cli
