package v1alpha1_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

const (
	badRate      = "spec.rate: Invalid value: … must be between 1 and 100000 messages a second, or Unlimited"
	sameRedrive  = "only rate, suspend, cancel and ttlSecondsAfterFinished can be changed: create another Redrive"
	refBelongs   = "type ConsumerQueue requires consumerQueueRef, and no other type takes it"
	delayBelongs = "delay requires type Retry: remove delay, or set type Retry"
	hasNoText    = "the name of a header must not have =, nor begin or end with !: select the header with expression"
	needsValues  = "operators In and NotIn require values, and no other operator takes them: add values, or remove them"

	tooManyValues = "the values of all headers together must have at most 65536 bytes: create several Redrives or Purges"
)

// withValues returns a selector whose headers have this many values each. A value has length times the character.
func withValues(character string, length int, numbers ...int) string {
	headers := make([]string, len(numbers))
	for i, number := range numbers {
		values := slices.Repeat([]string{strings.Repeat(character, length)}, number)
		headers[i] = `{name: x, operator: In, values: [` + strings.Join(values, ", ") + `]}`
	}
	return `selector: {headers: [` + strings.Join(headers, ", ") + `]}`
}

// withIDs returns a selector with this many IDs.
func withIDs(count int) string {
	ids := make([]string, count)
	for i := range ids {
		ids[i] = fmt.Sprintf("aaaaaaaaaaaaa%c%c%c", 'a'+i/26/26, 'a'+i/26%26, 'a'+i%26)
	}
	return `selector: {ids: [` + strings.Join(ids, ", ") + `]}`
}

// of returns the spec of a Redrive with these further fields.
func of(more string) string { return `{consumerQueueRef: {name: orders}, ` + more + `}` }

// ofEach calls of for each.
func ofEach(more ...string) []string {
	specs := make([]string, len(more))
	for i, one := range more {
		specs[i] = of(one)
	}
	return specs
}

var redriveRules = map[string]rule{
	"consumerQueueRef is all that is required": {
		accepted: []string{`consumerQueueRef: {name: orders}`},
		refused: map[string]string{
			`{}`:                           "spec.consumerQueueRef: Required value",
			`consumerQueueRef: {}`:         "spec.consumerQueueRef.name: Required value",
			`consumerQueueRef: {name: ""}`: "spec.consumerQueueRef.name: Invalid value: … should be at least 1 chars long",
			of(`queue: orders.dlq`):        `unknown field "spec.queue"`,
		},
	},
	"destination: each type with what belongs to it": {
		accepted: ofEach(`destination: {type: Main}`, `destination: {type: Retry}`, `destination: {type: Retry, delay: 5m}`,
			`destination: {type: Original}`, `destination: {type: ConsumerQueue, consumerQueueRef: {name: other}}`),
		refused: map[string]string{
			of(`destination: {}`):                                        "spec.destination.type: Required value",
			of(`destination: {type: Queue}`):                             `spec.destination.type: Unsupported value: "Queue"`,
			of(`destination: {type: ConsumerQueue}`):                     refBelongs,
			of(`destination: {type: Main, consumerQueueRef: {name: o}}`): refBelongs,
			of(`destination: {type: Main, delay: 5m}`):                   delayBelongs,
		},
	},
	"destination.delay: a duration": durations(of(`destination: {type: Retry, delay: %s}`), "spec.destination.delay"),
	"selector: reasons, ids, times": {
		accepted: ofEach(`selector: {}`, `selector: {reasons: [Rejected, Expired, MaxLength, DeliveryLimit, Parked]}`,
			`selector: {ids: [k3v5qz7m2w4x6y2a]}`, withIDs(1000), `selector: {diedAfter: "2026-11-01T00:00:00Z", diedBefore: "2026-11-02T00:00:00Z"}`),
		refused: map[string]string{
			of(`selector: {reasons: [Bored]}`):            `spec.selector.reasons[0]: Unsupported value: "Bored"`,
			of(`selector: {reasons: [Expired, Expired]}`): "spec.selector.reasons[1]: Duplicate value",
			of(`selector: {ids: [m1]}`):                   "spec.selector.ids[0]: Invalid value: … should match '^[a-z2-7]{16}$'",
			of(withIDs(1001)):                             "spec.selector.ids: Too many: 1001: must have at most 1000 items",
			of(`selector: {diedAfter: yesterday}`):        "spec.selector.diedAfter: Invalid value",
		},
	},
	"selector.headers: operators with the values that they need": {
		accepted: ofEach(`selector: {headers: [{name: tenant, operator: In, values: [acme]}, {name: x, operator: NotIn, values: [a, b]}]}`,
			`selector: {headers: [{name: x, operator: Exists}, {name: other, operator: DoesNotExist}]}`),
		refused: map[string]string{
			of(`selector: {headers: [{name: x, operator: In}]}`):                  needsValues,
			of(`selector: {headers: [{name: a=b, operator: Exists}]}`):            hasNoText,
			of(`selector: {headers: [{name: "!a", operator: Exists}]}`):           hasNoText,
			of(`selector: {headers: [{name: a!, operator: Exists}]}`):             hasNoText,
			of(`selector: {headers: [{name: x, operator: Exists, values: [a]}]}`): needsValues,
			of(`selector: {headers: [{name: x, operator: Like, values: [a]}]}`):   `spec.selector.headers[0].operator: Unsupported value: "Like"`,
			of(`selector: {headers: [{operator: Exists}]}`):                       "spec.selector.headers[0].name: Required value",
		},
	},
	"selector.headers: at most 64 KiB of values, because the manager keeps all specs in memory": {
		accepted: ofEach(withValues("a", 1024, 64), withValues("€", 341, 64)),
		refused: map[string]string{
			of(withValues("a", 1024, 64, 1)): tooManyValues,
			of(withValues("€", 342, 64)):     tooManyValues,
		},
	},
	"selector.expression: at most 2048 characters": {
		accepted: ofEach(`selector: {expression: 'body.order.country == "DE" && size < 65536'}`, `selector: {expression: `+strings.Repeat("a", 2048)+`}`),
		refused: map[string]string{
			of(`selector: {expression: ""}`):                                "spec.selector.expression: Invalid value: … should be at least 1 chars long",
			of(`selector: {expression: ` + strings.Repeat("a", 2049) + `}`): "spec.selector.expression: Too long: may not be more than 2048",
		},
	},
	"rate: a number or Unlimited": {
		accepted: ofEach(`rate: 1`, `rate: 100000`, `rate: Unlimited`),
		refused: map[string]string{
			of(`rate: 0`): badRate, of(`rate: 100001`): badRate, of(`rate: unlimited`): badRate, of(`rate: "100"`): badRate,
		},
	},
	"maxDestinationDepth, maxRedrives: a number or Unlimited": {
		accepted: ofEach(`maxDestinationDepth: 1, maxRedrives: 1`, `maxDestinationDepth: Unlimited, maxRedrives: Unlimited`),
		refused: map[string]string{
			of(`maxDestinationDepth: 0`): "spec.maxDestinationDepth: Invalid value: … must be at least 1, or Unlimited",
			of(`maxRedrives: 0`):         "spec.maxRedrives: Invalid value: … must be at least 1, or Unlimited",
			of(`maxRedrives: none`):      "spec.maxRedrives: Invalid value: … must be at least 1, or Unlimited",
		},
	},
	"maxMessages, maxFailures: at least one": {
		accepted: ofEach(`maxMessages: 1, maxFailures: 1`, `maxFailures: 1000`),
		refused: map[string]string{
			of(`maxMessages: 0`):    "spec.maxMessages: Invalid value: 0: … should be greater than or equal to 1",
			of(`maxFailures: 0`):    "spec.maxFailures: Invalid value: 0: … should be greater than or equal to 1",
			of(`maxFailures: 1001`): "spec.maxFailures: Invalid value: 1001: … should be less than or equal to 1000",
		},
	},
	"all changeable fields in one update": {
		from:     of(`maxMessages: 5`),
		accepted: ofEach(`maxMessages: 5, rate: 1, suspend: true, cancel: true, ttlSecondsAfterFinished: 60`),
		refused:  map[string]string{of(`maxMessages: 6, rate: 1, suspend: true`): sameRedrive},
	},
	"cancel cannot be taken back": {
		from:     of(`cancel: true`),
		accepted: ofEach(`cancel: true`),
		refused: map[string]string{
			of(`cancel: false`):  "spec.cancel: Invalid value: … a cancelled Redrive stays cancelled: create another Redrive",
			of(`suspend: false`): "spec.cancel: Invalid value: … a cancelled Redrive stays cancelled: create another Redrive",
		},
	},
}

func TestRedriveValidation(t *testing.T) {
	t.Parallel()
	for _, sentence := range slices.Sorted(maps.Keys(redriveRules)) {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			r := redriveRules[sentence]
			r.kind = "Redrive"
			r.check(t)
		})
	}
}
