// Package snapshot holds what a vhost has: read whole from the management API (read.go), kept current by what is written through
// (store.go), compared with the reading before (changes.go, doubt.go), and given out in selections (snapshot.go).
package snapshot
