package main

import (
	"time"

	"github.com/warren-mq/warren/consumer/contract"
)

// ignoresPause writes two pauses into the contract. During the first one, which it removes, the program loses its connections. The
// program starts during the second one, which ends by its time.
func ignoresPause(t *trial) {
	const (
		interval = 30 * time.Second // between two reads of the contract
		paused   = 5 * time.Second  // the same during a pause
		margin   = 5 * time.Second
	)
	t.contract.ConfigMap = "shop/jobs-contract"
	t.writeContract()
	t.start()
	t.handleOne()
	if !t.until(2*margin, t.allFollowContract) { // the broker lists consumers with a delay of 5 s
		t.addMistake("the argument %s of basic.consume is not %s", contract.ArgConfigMap, t.contract.ConfigMap)
	}
	t.askForPause("first", contract.MaxPause)
	if !t.until(interval+drain+margin, t.stopsConsuming) {
		t.addMistake("the program still consumes %s after the contract asked for a pause", interval+drain+margin)
		return
	}
	t.expectPause(paused + time.Second)
	t.proxy.Cut() // a program may still be connected
	t.expectPause(paused + time.Second)
	t.contract.Paused = nil
	t.writeContract()
	if !t.until(paused+margin, func() bool { return len(t.missing()) == 0 }) {
		t.addMistake("the program has not handled all messages %s after the pause ended", paused+margin)
		return
	}
	t.expectRepeated(0)

	t.terminate()
	t.askForPause("second", contract.MaxPause)
	t.launch()
	t.expectPause(2 * margin)
	const left = paused + margin // so that the program reads the time before it is over
	t.askForPause("second", left)
	if !t.until(left+2*margin, func() bool { return len(t.missing()) == 0 }) {
		t.addMistake("the program has not handled all messages %s after the end of a pause that is still in the contract", 2*margin)
	}
}

// askForPause makes the contract ask for a pause.
func (t *trial) askForPause(id string, length time.Duration) {
	t.contract.Paused = &contract.Pause{ID: id, Until: time.Now().Add(length).UTC()}
	t.writeContract()
}

// stopsConsuming sends a message that keeps a handler busy for 500 ms, and reports whether the queue has no consumers.
func (t *trial) stopsConsuming() bool {
	t.send("slow:500")
	t.pause(100 * time.Millisecond)
	return t.consumers() == 0
}

// expectPause sends messages, and adds a mistake if the program handles one within length.
func (t *trial) expectPause(length time.Duration) {
	before := t.journal.started()
	t.sendAll(5, "ok")
	t.pause(length)
	if handled := t.journal.started() - before; handled > 0 {
		t.addMistake("the program began to handle %d messages during a pause", handled)
	}
}

// allFollowContract reports whether the queue has consumers, and all of them declare that they follow the contract.
func (t *trial) allFollowContract() bool {
	consumers := t.vhost.Consumers(t.contract.Queue)
	for _, each := range consumers {
		if each.Arguments[contract.ArgConfigMap] != t.contract.ConfigMap {
			return false
		}
	}
	return len(consumers) > 0
}
