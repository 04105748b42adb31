package topology_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// entryOf32KiB is an entry of bindings with this number of routing keys, and with arguments that take 32 KiB as JSON.
func entryOf32KiB(keys int) string {
	arguments, routing := []string{`a00: "` + strings.Repeat("x", 1014) + `"`}, make([]string, keys)
	for i := 1; i < 32; i++ {
		arguments = append(arguments, fmt.Sprintf(`a%02d: "%s"`, i, strings.Repeat("x", 1015)))
	}
	for i := range routing {
		routing[i] = fmt.Sprint("k", i)
	}
	return fmt.Sprintf("{exchange: {name: e}, routingKeys: [%s], arguments: {%s}}", strings.Join(routing, ", "), strings.Join(arguments, ", "))
}

// The arguments of an entry count once for each of its routing keys, because the ID of each binding contains them.
func TestArgumentsOfBindingsCountOnceForEachRoutingKey(t *testing.T) {
	t.Parallel()
	const refused = "bindings: all arguments, counted once for each routing key, take 294912 bytes as JSON, at most 262144 are allowed: " +
		"shorten arguments or remove routing keys"
	for name, test := range map[string]struct {
		entries []string
		bound   int // 0 if the spec is refused
	}{
		"an entry of 256 KiB":          {entries: []string{entryOf32KiB(8)}, bound: 8},
		"an entry of 288 KiB":          {entries: []string{entryOf32KiB(9)}},
		"two equal entries of 128 KiB": {entries: []string{entryOf32KiB(4), entryOf32KiB(4)}, bound: 4},
		"two entries of 288 KiB":       {entries: []string{entryOf32KiB(4), entryOf32KiB(5)}},
		"an entry without keys counts": {entries: []string{entryOf32KiB(8), entryOf32KiB(0)}},
		"an entry without arguments does not count": {
			entries: []string{entryOf32KiB(8), "{exchange: {name: e}, routingKeys: [a, b]}"}, bound: 10,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := topologytest.Alone + "bindings: [" + strings.Join(test.entries, ", ") + "]"
			got, err := topology.Desired(topologytest.ConsumerQueue(t, spec), topologytest.V43)
			topologytest.Equal(t, "bindings", test.bound, len(got.Bindings))
			var refusal *topology.Refusal
			if test.bound == 0 && errors.As(err, &refusal) {
				topologytest.Equal(t, "refusal", &topology.Refusal{Reason: v1alpha1.ReasonInvalidSpec, Message: refused}, refusal)
			} else {
				topologytest.Equal(t, "error", nil, err)
			}
		})
	}
}
