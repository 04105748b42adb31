package vhost

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Version is a RabbitMQ version.
type Version struct{ Major, Minor, Patch int }

// The versions at which topologies change.
var (
	RabbitMQ310 = Version{3, 10, 0}
	RabbitMQ312 = Version{3, 12, 0}
	RabbitMQ40  = Version{4, 0, 0}
	RabbitMQ43  = Version{4, 3, 0}
	RabbitMQ435 = Version{4, 3, 5}
)

// NewestTested is the newest minor version of RabbitMQ with which Warren is tested. Warren treats a newer broker like this version.
var NewestTested = RabbitMQ43

// ParseVersion parses a version that a broker reports, such as 4.3.6 or 4.0.0-rc.1.
func ParseVersion(text string) (Version, error) {
	parts := append(numbers(text), 0)
	if len(parts) < 3 {
		return Version{}, fmt.Errorf("RabbitMQ version %q: must consist of numbers, as in 4.3.6", text)
	}
	return Version{parts[0], parts[1], parts[2]}, nil
}

// AtLeast reports whether v is other or newer.
func (v Version) AtLeast(other Version) bool {
	return cmp.Or(cmp.Compare(v.Major, other.Major), cmp.Compare(v.Minor, other.Minor), cmp.Compare(v.Patch, other.Patch)) >= 0
}

// Untested reports whether v is newer than every RabbitMQ with which Warren is tested.
func (v Version) Untested() bool {
	v.Patch = 0
	return v != NewestTested && v.AtLeast(NewestTested)
}

// String omits a patch level of 0.
func (v Version) String() string {
	if v.Patch == 0 {
		return fmt.Sprintf("%d.%d", v.Major, v.Minor)
	}
	return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch)
}

// Lowest returns the lowest of versions such as 4.3.6, including the patch level. It ignores empty versions.
func Lowest(versions ...string) string {
	return slices.MinFunc(versions, func(a, b string) int {
		if a == "" || b == "" {
			return strings.Compare(b, a)
		}
		return slices.Compare(numbers(a), numbers(b))
	})
}

// numbers parses the leading numbers of a version: 4.3.0-rc.1 gives 4, 3, 0.
func numbers(version string) []int {
	var all []int
	for part := range strings.SplitSeq(version, ".") {
		digits := strings.TrimRightFunc(part, func(r rune) bool { return r < '0' || r > '9' })
		digits, _, pre := strings.Cut(digits, "-")
		number, err := strconv.Atoi(digits)
		if err != nil {
			break
		}
		all = append(all, number)
		if pre || digits != part {
			break
		}
	}
	return all
}
