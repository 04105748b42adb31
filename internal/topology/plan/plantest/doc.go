// Package plantest tells, for tests, what happened to a ConsumerQueue, and compares what it wants with what the broker has.
package plantest
