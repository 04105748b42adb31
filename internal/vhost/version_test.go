package vhost_test

import (
	"slices"
	"testing"

	"github.com/warren-mq/warren/internal/vhost"
)

func TestParseVersion(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]vhost.Version{
		"4.3.6": vhost.RabbitMQ43, "4.0.0-rc.1": vhost.RabbitMQ40, "3.10": vhost.RabbitMQ310, "3.13.7.15": {Major: 3, Minor: 13},
		"10.0.1": {Major: 10},
	} {
		got, err := vhost.ParseVersion(text)
		if err != nil || got != want {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "4", "four.0", "4.x", "v4.0.0"} {
		_, err := vhost.ParseVersion(text)
		if want := `RabbitMQ version "` + text + `": want numbers as in 4.3.6`; err == nil || err.Error() != want {
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
