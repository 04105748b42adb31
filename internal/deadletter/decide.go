package deadletter

import "time"

// SkipReason is why a Redrive or Purge leaves a message in its queue.
type SkipReason string

// The values of SkipReason.
const (
	// NotSelected: the selector does not match the message.
	NotSelected SkipReason = "NotSelected"
	// Undated: the selector has diedAfter or diedBefore, and the message's time of death is unknown.
	Undated SkipReason = "Undated"
	// NotEvaluated: the expression failed on this message, for example because the message lacks a header.
	NotEvaluated SkipReason = "NotEvaluated"
	// MaxRedrives: the message was already moved maxRedrives times.
	MaxRedrives SkipReason = "MaxRedrives"
	// CameBack: this Redrive already moved the message.
	CameBack SkipReason = "CameBack"
	// OtherOrigin: the message died in a queue of another ConsumerQueue that shares the dead-letter queue.
	OtherOrigin SkipReason = "OtherOrigin"
	// NoOrigin: the dead-letter queue is shared, and the message's queue of origin is unknown.
	NoOrigin SkipReason = "NoOrigin"
)

// Rules decide which messages a job moves or deletes.
type Rules struct {
	Source   Source
	Selector *Selector
	// RedriveID is the UID of the Redrive.
	RedriveID string
	// MaxRedrives is the limit of moves per message; negative means no limit.
	MaxRedrives int
}

// Skips returns why a message stays in its queue; empty if the job moves or deletes it.
func (r Rules) Skips(deadLetter Message, now time.Time) SkipReason {
	if id, _ := deadLetter.Headers[HeaderRedriveID].(string); r.RedriveID != "" && id == r.RedriveID {
		return CameBack
	}
	if reason := r.skipsOrigin(deadLetter); reason != "" {
		return reason
	}
	if reason := r.Selector.skips(deadLetter, now); reason != "" {
		return reason
	}
	if r.MaxRedrives >= 0 && deadLetter.Redrives >= r.MaxRedrives {
		return MaxRedrives
	}
	return ""
}

// skipsOrigin protects messages of other ConsumerQueues. Messages of unknown origin need UnknownOrigin.
func (r Rules) skipsOrigin(deadLetter Message) SkipReason {
	switch {
	case !r.Source.Shared, r.Source.comesFrom(deadLetter.Origin):
		return ""
	case deadLetter.Origin.Queue != "":
		return OtherOrigin
	case r.Selector.UnknownOrigin:
		return ""
	}
	return NoOrigin
}

// MayBeOfOthers reports whether the dead-letter queue is shared and the message's queue of origin is unknown.
func (s Source) MayBeOfOthers(deadLetter Message) bool {
	return s.Shared && deadLetter.Origin.Queue == ""
}
