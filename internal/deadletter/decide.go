package deadletter

import "time"

// SkipReason says why a Redrive leaves a message where it is.
type SkipReason string

// The reasons to skip a message.
const (
	// NotSelected: the Selection does not mean the message.
	NotSelected SkipReason = "NotSelected"
	// Undated: the Selection bounds when messages died, and this message does not tell.
	Undated SkipReason = "Undated"
	// NotEvaluated: the expression failed on this message, for instance because the message lacks a header.
	NotEvaluated SkipReason = "NotEvaluated"
	// MaxRedrives: the message was moved as often as it may be.
	MaxRedrives SkipReason = "MaxRedrives"
	// CameBack: this Redrive has moved the message already.
	CameBack SkipReason = "CameBack"
	// OtherOrigin: the message died in a queue of another ConsumerQueue that shares the dead-letter queue.
	OtherOrigin SkipReason = "OtherOrigin"
	// NoOrigin: the dead-letter queue is shared, and the message does not tell whose it is.
	NoOrigin SkipReason = "NoOrigin"
)

// Rules are how a Redrive judges each message.
type Rules struct {
	Source   Source
	Selector *Selector
	// RedriveID is the UID of the Redrive.
	RedriveID string
	// MaxRedrives is how often a message may have been moved; no limit if negative.
	MaxRedrives int
}

// Skips says why a message stays where it is; empty if the message is to be moved.
func (r Rules) Skips(letter Letter, now time.Time) SkipReason {
	if id, _ := letter.Headers[HeaderRedriveID].(string); r.RedriveID != "" && id == r.RedriveID {
		return CameBack
	}
	if reason := r.skipsOrigin(letter); reason != "" {
		return reason
	}
	if reason := r.Selector.skips(letter, now); reason != "" {
		return reason
	}
	if r.MaxRedrives >= 0 && letter.Redrives >= r.MaxRedrives {
		return MaxRedrives
	}
	return ""
}

// skipsOrigin keeps a Redrive from messages of others. Those that may be of others have to be selected as such.
func (r Rules) skipsOrigin(letter Letter) SkipReason {
	switch {
	case !r.Source.Shared, r.Source.comesFrom(letter.Origin):
		return ""
	case letter.Origin.Queue != "":
		return OtherOrigin
	case r.Selector.UnknownOrigin:
		return ""
	}
	return NoOrigin
}

// MayBeOfOthers reports whether a message of a shared dead-letter queue does not tell which queue it comes from.
func (s Source) MayBeOfOthers(letter Letter) bool { return s.Shared && letter.Origin.Queue == "" }
