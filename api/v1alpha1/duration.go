package v1alpha1

import (
	"fmt"
	"time"
)

// Duration is a length of time in whole milliseconds, written as integers with h, m, s, ms in that order, such as 90s
// or 1h30m.
//
// +kubebuilder:validation:MinLength=2
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:Pattern=`^([0-9]{1,6}h)?([0-9]{1,7}m)?([0-9]{1,9}s)?([0-9]{1,12}ms)?$`
// +kubebuilder:validation:XValidation:rule="!isDuration(self) || (duration(self) >= duration('1ms') && duration(self) <= duration('4294967295ms'))",message="must be between 1ms and 1193h2m47s295ms, the longest time that RabbitMQ takes"
type Duration string

// Parse returns the duration as Go knows it. It fails only for a value that the API server would have refused.
func (d Duration) Parse() (time.Duration, error) {
	parsed, err := time.ParseDuration(string(d))
	if err != nil {
		return 0, fmt.Errorf("duration %q: want integers with h, m, s, ms in that order, such as 1h30m", string(d))
	}
	return parsed, nil
}
