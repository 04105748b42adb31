// Package traffic shows whether messages are lost. Publishers record what the broker confirmed, consumers record what they
// processed, and Account compares the two with the messages in queues. Each message has a unique ID, so a loss is a list of
// messages instead of a difference of numbers. The package shares no code with internal/rabbit.
package traffic
