// Package traffic shows whether messages are lost: publishers that know what the broker confirmed, consumers that know
// what they processed, and an account of the two with what is still in the queues. Each message has an id of its own, so
// that a loss is a list of messages and not a difference of two numbers. It shares no code with internal/rabbit.
package traffic
