package deadletter

import (
	"fmt"
	"slices"
	"strings"
)

// ParseHeaders parses requirements of headers in the form of the dead-letter API: NAME, !NAME, NAME=VALUE or NAME!=VALUE. It
// merges the values of one header and operator into one requirement.
func ParseHeaders(given []string) ([]HeaderRequirement, error) {
	var requirements []HeaderRequirement
	for _, text := range given {
		requirement := parseHeader(text)
		if requirement.Name == "" {
			return nil, fmt.Errorf("%q must be NAME, !NAME, NAME=VALUE or NAME!=VALUE", text)
		}
		same := slices.IndexFunc(requirements, func(other HeaderRequirement) bool {
			return other.Name == requirement.Name && other.Operator == requirement.Operator
		})
		if same < 0 {
			requirements = append(requirements, requirement)
		} else {
			requirements[same].Values = append(requirements[same].Values, requirement.Values...)
		}
	}
	return requirements, nil
}

func parseHeader(text string) HeaderRequirement {
	name, value, compared := strings.Cut(text, "=")
	switch {
	case compared && strings.HasSuffix(name, "!"):
		return HeaderRequirement{strings.TrimSuffix(name, "!"), NotIn, []string{value}}
	case compared:
		return HeaderRequirement{name, In, []string{value}}
	case strings.HasPrefix(text, "!"):
		return HeaderRequirement{Name: text[1:], Operator: DoesNotExist}
	}
	return HeaderRequirement{Name: text, Operator: Exists}
}
