package main

import "time"

func ignoresSIGTERM(t *trial) {
	t.send("hang")
	t.sendAll(3, "ok")
	t.start()
	t.until(t.limit, func() bool { return t.journal.successes() >= 3 && t.journal.begun() == 4 })
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
	t.sendAll(100, "slow:30")
	t.start()
	for round := 1; round <= rounds; round++ {
		t.until(t.limit, func() bool { return t.journal.successes() >= 25*round })
		if t.terminate() && t.subject.Err() != nil {
			t.fails("the program ended with %v after SIGTERM", t.subject.Err())
		}
		if begun, finished := t.journal.begun(), t.journal.successes(); begun > finished {
			t.fails("%d handlers were interrupted by SIGTERM, and had to finish", begun-finished)
		}
		t.start()
	}
	t.settle()
	t.expectRepeated(0)
}
