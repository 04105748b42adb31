// Package purge is what a Purge does: it counts which messages of a dead-letter queue match, and deletes those if they are no more than
// expected. What a Purge has in common with a Redrive is in package transfers.
package purge
