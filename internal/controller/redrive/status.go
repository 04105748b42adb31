package redrive

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/transfer"
)

// maxFailuresListed is how many failures a status lists.
const maxFailuresListed = 10

// record takes over how a transfer fares.
func record(status *v1alpha1.RedriveStatus, progress transfer.Progress) {
	status.Moved, status.Examined = new(int64(progress.Moved)), new(int64(progress.Examined()))
	status.Failed = new(int64(len(progress.Failures)))
	status.Skipped = nil
	if len(progress.Skipped) > 0 {
		status.Skipped = map[string]int64{}
	}
	for reason, count := range progress.Skipped {
		status.Skipped[reason] = int64(count)
	}
	status.Failures = nil
	for _, failure := range progress.Failures[:min(len(progress.Failures), maxFailuresListed)] {
		status.Failures = append(status.Failures, v1alpha1.RedriveFailure{
			ID: failure.ID, Reason: failure.Reason, Message: conditions.TruncateEncoded(failure.Message, 1024),
		})
	}
}

// doing is the value of Ready while a transfer goes on.
func doing(state transfer.State, detail, from, to string) conditions.Value {
	message := fmt.Sprintf("moves messages from queue %q", from)
	if to != "" {
		message += fmt.Sprintf(" to queue %q", to)
	}
	switch state {
	case transfer.Connecting, transfer.Moving, "":
		if detail != "" {
			message = "connects again: " + detail
		}
		return conditions.Unknown(v1alpha1.ReasonMoving, message)
	}
	reason := string(state) // the names of the other states are reasons, too
	return conditions.Unknown(reason, detail)
}

// The pauses between two writes of a status while messages are moved.
const (
	firstMinute   = time.Minute
	earlyInterval = 5 * time.Second
	lateInterval  = 30 * time.Second
)

// untilWrite says how long a status that changed has to wait until it may be written: 350 writes for a Redrive that takes three hours are
// enough. That a transfer does something else than before waits for less.
func untilWrite(now, started, written time.Time, transition bool) time.Duration {
	interval := lateInterval
	if transition || now.Sub(started) < firstMinute {
		interval = earlyInterval
	}
	return max(0, written.Add(interval).Sub(now))
}

// outcome is what becomes of a Redrive whose transfer has ended by itself.
func outcome(status *v1alpha1.RedriveStatus, dryRun bool, err error) halt {
	switch {
	case errors.Is(err, transfer.ErrTooManyFailures):
		return *failed(v1alpha1.ReasonTooManyFailures, fmt.Sprintf(
			"%s: they stay in queue %q, and status.failures lists the first of them", tally(status, "moved"), status.Source))
	case errors.Is(err, transfer.ErrUnreadable):
		return *failed(v1alpha1.ReasonUnreadableMessage, fmt.Sprintf(
			"%s; the broker cannot deliver the message at the head of queue %q over AMQP 0-9-1, as with a UUID among the application "+
				"properties of AMQP 1.0: take the message out with a client of AMQP 1.0, then create another Redrive",
			tally(status, "moved"), status.Source))
	case errors.Is(err, transfer.ErrUnknownReturn):
		return *failed(v1alpha1.ReasonUnknownReturn, tally(status, "moved")+"; "+conditions.ErrorSummary(err))
	case err != nil:
		return *whyBrokerRefuses(err)
	case dryRun:
		return halt{value: conditions.True(v1alpha1.ReasonDryRun, tally(status, "would be moved")), final: true}
	}
	return halt{value: conditions.True(v1alpha1.ReasonCompleted, tally(status, "moved")), final: true}
}

// whyBrokerRefuses is the halt where the broker does not do what it is asked to.
func whyBrokerRefuses(err error) *halt {
	if errors.Is(err, brokererr.ErrAccessRefused) {
		stop := stalled(v1alpha1.ReasonPermissionDenied, conditions.ErrorSummary(err))
		stop.retry = deniedRetry
		return stop
	}
	return waiting(v1alpha1.ReasonBrokerUnreachable, conditions.ErrorSummary(err))
}

// tally says in a sentence what was done.
func tally(status *v1alpha1.RedriveStatus, verb string) string {
	parts := []string{fmt.Sprintf("%d of %s %s", number(status.Moved), messages(number(status.Total)), verb)}
	for _, reason := range slices.Sorted(maps.Keys(status.Skipped)) {
		parts = append(parts, fmt.Sprintf("%d skipped (%s)", status.Skipped[reason], reason))
	}
	if failed := number(status.Failed); failed > 0 {
		parts = append(parts, fmt.Sprintf("%d could not be moved", failed))
	}
	return strings.Join(parts, ", ")
}

func messages(count int64) string {
	if count == 1 {
		return "1 message"
	}
	return fmt.Sprintf("%d messages", count)
}

// number is a number of a status, zero where there is none yet.
func number(field *int64) int64 {
	if field == nil {
		return 0
	}
	return *field
}

// quoted lists names for people.
func quoted(names []string) string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = fmt.Sprintf("%q", name)
	}
	return strings.Join(texts, ", ")
}
