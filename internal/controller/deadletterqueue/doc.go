// Package deadletterqueue finds the dead-letter queue of a ConsumerQueue at the broker, or says why no messages can be taken from there.
package deadletterqueue
