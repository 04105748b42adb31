package contract

import (
	"fmt"
	"strings"
	"time"
)

// Duration is a time.Duration that is written as in a ConsumerQueue, such as 30s or 1h30m.
type Duration time.Duration

// String is the duration without units that are zero.
func (d Duration) String() string {
	text := time.Duration(d).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// MarshalText writes the duration.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads a duration that is not negative.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err == nil && parsed < 0 {
		err = fmt.Errorf("duration %q is negative", text)
	}
	*d = Duration(parsed)
	return err
}
