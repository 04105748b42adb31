package options

import (
	"flag"
	"io"
	"strings"
	"testing"
)

// The limit is small enough that its product with management.MemoryFactor is also a number of bytes.
func TestMaxManagementResponse(t *testing.T) {
	t.Parallel()
	const outside = "must be between 1Mi and 1Ti"
	for name, test := range map[string]struct {
		args    string
		want    int64
		refused string
	}{
		"by default":        {"", 64 << 20, ""},
		"the smallest":      {"--max-management-response=1Mi", 1 << 20, ""},
		"the largest":       {"--max-management-response=1Ti", 1 << 40, ""},
		"a byte less":       {"--max-management-response=1048575", 0, outside},
		"a byte more":       {"--max-management-response=1099511627777", 0, outside},
		"more than 63 bits": {"--max-management-response=8Ei", 0, outside},
		"a negative number": {"--max-management-response=-64Mi", 0, outside},
		"an unknown unit":   {"--max-management-response=64MB", 0, "quantities must match the regular expression"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flags, options := flag.NewFlagSet("manager", flag.ContinueOnError), Options{}
			flags.SetOutput(io.Discard)
			options.Bind(flags)
			err := flags.Parse(strings.Fields(test.args))
			if test.refused != "" {
				if err == nil || !strings.Contains(err.Error(), test.refused) {
					t.Errorf("error %v, want %q", err, test.refused)
				}
				return
			}
			if got := options.MaxManagementResponse(); err != nil || got != test.want {
				t.Errorf("%d bytes, error %v, want %d", got, err, test.want)
			}
		})
	}
}
