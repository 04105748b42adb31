package consumer_test

import "runtime"

// goexit ends the goroutine, as testing.T.FailNow does in a handler.
func goexit() { runtime.Goexit() }
