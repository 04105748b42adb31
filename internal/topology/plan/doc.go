// Package plan compares a desired topology with what a broker has, and decides what to do about the differences. It is pure:
// comparisons and plans are values, and nothing here reads or changes a broker.
//
// Diff finds the differences, Decide makes a Plan of Actions of them, Teardown is the next step of taking a topology away.
// What keeps an object that is no longer desired from being removed stands in blocked.go.
package plan
