package v1alpha1

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Duration is a length of time in whole milliseconds, written as integers with d, h, m, s, ms in that order, such as 14d,
// 1h30m or 90s. A day has 24 hours.
//
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="isDuration(self)",message="must be integers with d, h, m, s, ms in that order, such as 14d, 1h30m or 90s"
// +kubebuilder:validation:XValidation:rule="!isDuration(self) || (lengthOf(self) >= 1 && lengthOf(self) <= 4294967295)",message="must be between 1ms and 1193h2m47s295ms (49 days), the longest time that RabbitMQ accepts"
type Duration string

// Parse returns the length. It returns an error only for a value that the API server would have refused.
func (d Duration) Parse() (time.Duration, error) {
	text := string(d)
	days, rest, hasDays := strings.Cut(text, "d")
	if hasDays {
		count, err := strconv.ParseUint(days, 10, 16)
		if err != nil {
			return 0, d.malformed()
		}
		text = fmt.Sprintf("%dh%s", 24*count, rest)
	}
	length, err := time.ParseDuration(text)
	if err != nil {
		return 0, d.malformed()
	}
	return length, nil
}

func (d Duration) malformed() error {
	return fmt.Errorf("duration %q: must be integers with d, h, m, s, ms in that order, such as 14d, 1h30m or 90s", string(d))
}
