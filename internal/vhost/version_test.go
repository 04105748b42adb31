package vhost_test

import (
	"slices"
	"testing"

	"github.com/warren-mq/warren/internal/vhost"
)

func TestParseVersion(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]vhost.Version{
		"4.3.0": vhost.RabbitMQ43, "4.3.6": {Major: 4, Minor: 3, Patch: 6}, "4.3.5-rc.1": vhost.RabbitMQ435, "4.0.0-rc.1": vhost.RabbitMQ40,
		"3.10": vhost.RabbitMQ310, "3.13.7.15": {Major: 3, Minor: 13, Patch: 7}, "10.0.1": {Major: 10, Patch: 1},
	} {
		got, err := vhost.ParseVersion(text)
		if err != nil || got != want {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "4", "four.0", "4.x", "v4.0.0"} {
		_, err := vhost.ParseVersion(text)
		if want := `RabbitMQ version "` + text + `": must consist of numbers, as in 4.3.6`; err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func TestLowestVersion(t *testing.T) {
	t.Parallel()
	cases := map[string][]string{
		"4.3.6":      {"4.3.6"},
		"4.2.10":     {"4.3.0", "4.2.10", "", "4.10.0"},
		"4.3.0":      {"4.3.1", "4.3.0"},
		"3.10.8":     {"3.10.8", ""},
		"3.9.27":     {"3.10.8", "3.9.27"},
		"4.3.0-rc.1": {"4.3.1", "4.3.0-rc.1"},
		"":           {"", ""},
	}
	for want, versions := range cases {
		for range 2 {
			if got := vhost.Lowest(versions...); got != want {
				t.Errorf("lowest of %q is %q, should be %q", versions, got, want)
			}
			slices.Reverse(versions)
		}
	}
}

func TestVersionsAreCompared(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		version, other string
		atLeast        bool
	}{
		{"4.3.5", "4.3.5", true},
		{"4.3.6", "4.3.5", true},
		{"4.3.4", "4.3.5", false},
		{"4.4.0", "4.3.5", true},
		{"5.0", "4.3.5", true},
		{"4.2.9", "4.3", false},
		{"4.3.0", "4.3", true},
	} {
		version, _ := vhost.ParseVersion(test.version)
		other, _ := vhost.ParseVersion(test.other)
		if got := version.AtLeast(other); got != test.atLeast {
			t.Errorf("%s is at least %s: %t", version, other, got)
		}
	}
}

func TestVersionsAboveTheNewestTested(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"3.10.8": false, "4.3.0": false, "4.3.99": false, "4.4.0": true, "4.10.1": true, "5.0": true} {
		version, _ := vhost.ParseVersion(text)
		if got := version.Untested(); got != want {
			t.Errorf("%s is untested: %t", text, got)
		}
	}
}
