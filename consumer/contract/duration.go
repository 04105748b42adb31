package contract

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// maxMilliseconds is RabbitMQ's limit for a TTL, in milliseconds.
const maxMilliseconds = 1<<32 - 1

// Duration is a time.Duration. Its JSON form is a whole number of milliseconds, which every language can read.
type Duration time.Duration

// String returns the duration without units that are zero, as in a ConsumerQueue: 30s or 1h30m.
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

// MarshalJSON encodes the duration in milliseconds.
func (d Duration) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, time.Duration(d).Milliseconds(), 10), nil
}

// UnmarshalJSON decodes milliseconds from 0 to RabbitMQ's limit, 4294967295.
func (d *Duration) UnmarshalJSON(text []byte) error {
	milliseconds, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil || milliseconds > maxMilliseconds {
		return fmt.Errorf("duration %s must be a whole number of milliseconds from 0 to %d", text, int64(maxMilliseconds))
	}
	*d = Duration(time.Duration(milliseconds) * time.Millisecond)
	return nil
}
