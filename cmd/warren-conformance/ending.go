package main

import "time"

func ignoresSIGTERM(t *trial) {
	t.send("hang")
	t.sendAll(3, "ok")
	t.start()
	t.until(t.anyEvent, func() bool { return t.journal.successes() >= 3 && t.journal.started() == 4 })
	t.terminate()
	t.start()
	t.settle()
	t.proxy.Refuse()
	t.pause(time.Second)
	t.terminate()
	t.proxy.Accept()
	t.start()
}

func drainRepeats(t *trial) {
	const rounds = 2
	t.sendAll(100, "slow:100")
	t.start()
	for round := 1; round <= rounds; round++ {
		t.until(t.anyEvent, func() bool { return t.journal.successes() >= 25*round })
		if t.terminate() && t.subject.Err() != nil {
			t.addMistake("the program exited with %v after SIGTERM", t.subject.Err())
		}
		if started, finished := t.journal.started(), t.journal.successes(); started > finished {
			t.addMistake("SIGTERM interrupted %d handlers that should have finished", started-finished)
		}
		t.start()
	}
	t.settle()
	t.expectRepeated(0)
}
