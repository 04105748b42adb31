package vhost

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Version is a RabbitMQ version, without its patch level.
type Version struct{ Major, Minor int }

// The versions at which topologies change.
var (
	RabbitMQ310 = Version{3, 10}
	RabbitMQ312 = Version{3, 12}
	RabbitMQ40  = Version{4, 0}
	RabbitMQ43  = Version{4, 3}
)

// ParseVersion reads what a broker says of itself, such as 4.3.6 or 4.0.0-rc.1.
func ParseVersion(text string) (Version, error) {
	major, rest, _ := strings.Cut(text, ".")
	minor, _, _ := strings.Cut(rest, ".")
	first, err := strconv.Atoi(major)
	if err != nil {
		return Version{}, fmt.Errorf("RabbitMQ version %q: want numbers as in 4.3.6", text)
	}
	second, err := strconv.Atoi(minor)
	if err != nil {
		return Version{}, fmt.Errorf("RabbitMQ version %q: want numbers as in 4.3.6", text)
	}
	return Version{first, second}, nil
}

// AtLeast says whether v is other or newer.
func (v Version) AtLeast(other Version) bool {
	return v.Major > other.Major || (v.Major == other.Major && v.Minor >= other.Minor)
}

func (v Version) String() string {
	return fmt.Sprintf("%d.%d", v.Major, v.Minor)
}

// Lowest returns the lowest of versions such as 4.3.6, patch level included; those that are empty do not count.
func Lowest(versions ...string) string {
	return slices.MinFunc(versions, func(a, b string) int {
		if a == "" || b == "" {
			return strings.Compare(b, a)
		}
		return slices.Compare(numbers(a), numbers(b))
	})
}

// numbers reads the leading numbers of a version: 4.3.0-rc.1 is 4, 3, 0.
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
