// Package plan compares a desired topology with a broker, and decides what to do about the differences. The package is pure: comparisons
// and plans are values, and no function reads or changes a broker.
//
// Diff finds the differences, Decide turns them into a Plan of Actions, and Teardown is the next step of removing a topology.
// blocked.go has the reasons to retain an object that left the spec, and teardown.go those of a deleted ConsumerQueue.
package plan
