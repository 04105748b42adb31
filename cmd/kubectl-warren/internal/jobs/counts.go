package jobs

// DoneText formats the number of messages that a job moved or deleted. After a crash, an ended job knows only a range.
func DoneText(outcome Outcome, done, atMost int64, number func(int64) string) string {
	if outcome.Ended() && atMost > done {
		return number(done) + " to " + number(atMost)
	}
	return number(done)
}
