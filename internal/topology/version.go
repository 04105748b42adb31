package topology

import (
	"fmt"
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
