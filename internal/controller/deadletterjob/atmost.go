package deadletterjob

import "github.com/warren-mq/warren/internal/rabbit/mover"

// A job moves or deletes no message before status.atMost covers that message. After a crash, the next manager counts all messages
// up to atMost as moved. So spec.maxMessages holds across crashes.

const (
	// stepSeconds is how many seconds the largest step lasts at the rate of a job.
	stepSeconds = 5
	// unlimitedStep is the largest step of a job without a rate, in messages.
	unlimitedStep = 20_000
	// A step is 1/stepShare of the largest step, less the messages whose outcome is uncertain.
	stepShare = 4
	// A step is at least 1/smallestShare of the largest step. Smaller steps would write the status too often.
	smallestShare = 64
)

// nextAtMost returns the next value of status.atMost: the maximum number of messages that a job may move or delete, including earlier runs.
// The rate is in messages per second; zero is unlimited.
func nextAtMost(config mover.Config, progress mover.Progress, rate int) int {
	return max(progress.Moved, min(maxMoved(config, progress), progress.Moved+atMostStep(progress, rate)))
}

// isAtMostDue reports whether a job has used half of the last step and may move more messages.
func isAtMostDue(config mover.Config, progress mover.Progress, settings mover.Settings) bool {
	left := settings.MaxMoved - progress.Moved - progress.InFlight
	return settings.MaxMoved < maxMoved(config, progress) && 2*left <= atMostStep(progress, settings.Rate)
}

// atMostStep returns by how many messages the next atMost exceeds the moved messages.
func atMostStep(progress mover.Progress, rate int) int {
	largest := unlimitedStep
	if rate > 0 {
		largest = stepSeconds * rate
	}
	uncertain := progress.Moved - progress.Certain()
	return max(1, largest/smallestShare, (largest-uncertain)/stepShare)
}

// maxMoved returns the maximum number of messages that a job moves in total. A message that a crash returned to the queue is moved again.
func maxMoved(config mover.Config, progress mover.Progress) int {
	most := config.Total + progress.Unsure
	if config.Limit > 0 {
		most = min(most, config.Limit)
	}
	return most
}
