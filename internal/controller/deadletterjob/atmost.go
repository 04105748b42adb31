package deadletterjob

import "github.com/warren-mq/warren/internal/rabbit/transfer"

// A job moves or deletes no message before the status says that it may have done so: status.atMost is the claim. A manager that goes on
// after a crash counts the whole claim as moved, so that a limit holds.

const (
	// stepSeconds is for how long the largest claim lasts at the rate of a job.
	stepSeconds = 5
	// unlimitedStep is the largest claim of a job without a rate.
	unlimitedStep = 20_000
	// stepShare is the part of what is left of the largest claim that one claim takes. After a few crashes, the range between moved and
	// atMost is still not wider than the largest claim.
	stepShare = 4
	// smallestShare is the part of the largest claim that a claim takes at least. The status is written that often then.
	smallestShare = 64
)

// claim returns how many messages a job may have moved or deleted, earlier runs included, until the status is written again. The rate is
// zero if it is unlimited.
func nextAtMost(config transfer.Config, progress transfer.Progress, rate int) int {
	return max(progress.Moved, min(maxMoved(config, progress), progress.Moved+atMostStep(progress, rate)))
}

// isAtMostDue reports whether a job has used half of its claim and may move more.
func isAtMostDue(config transfer.Config, progress transfer.Progress, settings transfer.Settings) bool {
	left := settings.MaxMoved - progress.Moved - progress.InFlight
	return settings.MaxMoved < maxMoved(config, progress) && 2*left <= atMostStep(progress, settings.Rate)
}

// atMostStep is how many messages a claim adds.
func atMostStep(progress transfer.Progress, rate int) int {
	largest := unlimitedStep
	if rate > 0 {
		largest = stepSeconds * rate
	}
	uncertain := progress.Moved - progress.Certain()
	return max(1, largest/smallestShare, (largest-uncertain)/stepShare)
}

// maxMoved is how many messages a job moves in all. Messages that may be in the queue again are moved again.
func maxMoved(config transfer.Config, progress transfer.Progress) int {
	most := config.Total + progress.Unsure
	if config.Limit > 0 {
		most = min(most, config.Limit)
	}
	return most
}
