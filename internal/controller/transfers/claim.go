package transfers

import "github.com/warren-mq/warren/internal/rabbit/transfer"

// A job moves or deletes no message before the status says that it may have done so: status.atMost is the claim. A manager that goes on
// after a crash counts the whole claim as moved, so that a limit holds.

const (
	// claimSeconds is for how long the largest claim lasts at the rate of a job.
	claimSeconds = 5
	// unlimitedClaim is the largest claim of a job without a rate.
	unlimitedClaim = 20_000
	// claimShare is the part of what is left of the largest claim that one claim takes. After a few crashes, the range between moved and
	// atMost is still not wider than the largest claim.
	claimShare = 4
	// smallestShare is the part of the largest claim that a claim takes at least. The status is written that often then.
	smallestShare = 64
)

// claim returns how many messages a job may have moved or deleted, earlier runs included, until the status is written again. The rate is
// zero if it is unlimited.
func claim(config transfer.Config, progress transfer.Progress, rate int) int {
	return max(progress.Moved, min(mostMoved(config, progress), progress.Moved+claimStep(progress, rate)))
}

// isClaimDue reports whether a job has used half of its claim and may move more.
func isClaimDue(config transfer.Config, progress transfer.Progress, settings transfer.Settings) bool {
	left := settings.MaxMoved - progress.Moved - progress.InFlight
	return settings.MaxMoved < mostMoved(config, progress) && 2*left <= claimStep(progress, settings.Rate)
}

// claimStep is how many messages a claim adds.
func claimStep(progress transfer.Progress, rate int) int {
	largest := unlimitedClaim
	if rate > 0 {
		largest = claimSeconds * rate
	}
	uncertain := progress.Moved - progress.Certain()
	return max(1, largest/smallestShare, (largest-uncertain)/claimShare)
}

// mostMoved is how many messages a job moves in all. Messages that may be in the queue again are moved again.
func mostMoved(config transfer.Config, progress transfer.Progress) int {
	most := config.Total + progress.Unsure
	if config.Limit > 0 {
		most = min(most, config.Limit)
	}
	return most
}
