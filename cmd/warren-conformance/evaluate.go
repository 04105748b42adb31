package main

import (
	"slices"
	"strings"
	"sync"
)

// evaluate stops the program and counts mistakes. A message is lost if it was neither handled nor dead-lettered, and is in no queue.
func (t *trial) evaluate() {
	settled := func() bool { return t.unsettled() == 0 }
	if len(t.missing()) == 0 && !t.until(t.event, settled) && !t.subject.HasEnded() {
		t.addMistake("the program did not settle %d messages, although all messages are handled", t.unsettled())
	}
	t.stop()
	t.subject = nil
	if t.Context().Err() != nil {
		t.addMistake("the trial did not finish within %s", t.end)
		return
	}
	if count := t.unknownTags.Load() - t.provoked; count > 0 {
		t.addMistake("the broker closed %d channels with \"unknown delivery tag\": the program settled a message twice", count)
	}
	fails := func(m message) bool { return m.fails }
	if t.copied.Load() && !slices.ContainsFunc(t.sent, fails) {
		t.addMistake("the program published copies, although no handler failed")
	}
	t.evaluateMissing(t.missing())
	for _, m := range t.sent {
		t.result.repeated += max(0, t.journal.handled(m.id)-1) + max(0, len(t.deadLetters[m.id])-1)
		dead := len(t.deadLetters[m.id]) > 0
		switch {
		case dead && !m.dies:
			t.addMistake("message %s was dead-lettered instead of handled", m.id)
		case !dead && m.dies && t.journal.handled(m.id) > 0:
			t.addMistake("message %s was handled instead of dead-lettered", m.id)
		}
	}
}

// evaluateMissing searches all queues for the missing messages, after the broker has requeued the unsettled messages of the program.
// Messages that wait to be dead-lettered are not ready, so it only counts them.
func (t *trial) evaluateMissing(missing []string) {
	if len(missing) == 0 {
		return
	}
	held := t.vhost.Held()
	absent := t.absent(missing)
	if t.result.lost = max(0, len(absent)-held); t.result.lost > 0 {
		t.addMistake("%d of %d messages are lost, among %s", t.result.lost, len(t.sent), list(absent))
	}
	if waiting := len(missing) - t.result.lost; waiting > 0 {
		t.addMistake("%d of %d messages still wait in a queue, among %s", waiting, len(t.sent), list(missing))
	}
}

// absent empties all queues and returns the IDs of the missing messages that were in none of them. It consumes, because the broker
// refuses basic.get on a queue with a single active consumer.
func (t *trial) absent(missing []string) []string {
	connection, err := t.vhost.Connect("warren-conformance")
	t.check(err)
	defer func() { _ = connection.Close() }()
	channel, err := connection.Channel()
	t.check(err)
	queues := make([]string, 0, 2+len(t.contract.Tiers))
	queues = append(queues, t.contract.Queue, t.contract.DeadLetterQueue)
	for _, tier := range t.contract.Tiers {
		queues = append(queues, t.tierQueue(tier))
	}
	var found sync.Map
	for _, queue := range queues {
		deliveries, err := channel.Consume(queue, "", true, false, false, false, nil)
		t.check(err)
		go func() {
			for delivery := range deliveries {
				found.Store(idOf(delivery), true)
			}
		}()
	}
	var absent []string
	t.until(t.event/2, func() bool {
		absent = slices.DeleteFunc(slices.Clone(missing), func(id string) bool { _, exists := found.Load(id); return exists })
		return len(absent) == 0
	})
	return absent
}

func list(ids []string) string {
	const shown = 5
	if len(ids) > shown {
		ids = append(slices.Clone(ids[:shown]), "…")
	}
	return strings.Join(ids, ", ")
}
