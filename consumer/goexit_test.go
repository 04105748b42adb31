package consumer_test

import "runtime"

// goexit ends the goroutine of a handler, as testing.T.FailNow does.
func goexit() { runtime.Goexit() }
