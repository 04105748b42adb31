package v1alpha1_test

import (
	"maps"
	"slices"
	"testing"
)

const samePurge = "only rate, suspend, cancel and ttlSecondsAfterFinished can be changed: create another Purge"

// upTo5 returns the spec of a Purge with expectedAtMost 5 and these further fields.
func upTo5(more string) string { return of("expectedAtMost: 5, " + more) }

// eachUpTo5 calls upTo5 for each.
func eachUpTo5(more ...string) []string {
	specs := make([]string, len(more))
	for i, one := range more {
		specs[i] = upTo5(one)
	}
	return specs
}

var purgeRules = map[string]rule{
	"consumerQueueRef and expectedAtMost are all that is required": {
		accepted: []string{upTo5("")},
		refused: map[string]string{
			`{expectedAtMost: 5}`:                       "spec.consumerQueueRef: Required value",
			`{consumerQueueRef: {}, expectedAtMost: 5}`: "spec.consumerQueueRef.name: Required value",
			`{consumerQueueRef: {name: orders}}`:        "spec.expectedAtMost: Required value",
			of(`expectedAtMost: 0`):                     "spec.expectedAtMost: Invalid value: 0: … should be greater than or equal to 1",
			upTo5(`destination: {type: Main}`):          `unknown field "spec.destination"`,
			upTo5(`maxRedrives: 1`):                     `unknown field "spec.maxRedrives"`,
		},
	},
	"selector: as in a Redrive": {
		accepted: eachUpTo5(`selector: {}`, `selector: {reasons: [Parked], expression: "size > 1", ids: [k3v5qz7m2w4x6y2a]}`),
		refused: map[string]string{
			upTo5(`selector: {reasons: [Bored]}`):                           `spec.selector.reasons[0]: Unsupported value: "Bored"`,
			upTo5(`selector: {headers: [{name: x, operator: In}]}`):         needsValues,
			upTo5(`selector: {headers: [{name: a=b, operator: Exists}]}`):   hasNoText,
			upTo5(withValues("a", 1024, 64, 1)):                             tooManyValues,
			upTo5(`selector: {expression: ""}`):                             "spec.selector.expression: Invalid value: … should be at least 1 chars long",
			upTo5(`selector: {diedBefore: yesterday}`):                      "spec.selector.diedBefore: Invalid value",
			upTo5(`selector: {headers: [{name: x, operator: DoesNotExi}]}`): `spec.selector.headers[0].operator: Unsupported value: "DoesNotExi"`,
		},
	},
	"rate: a number or Unlimited": {
		accepted: eachUpTo5(`rate: 1`, `rate: 100000`, `rate: Unlimited`),
		refused: map[string]string{
			upTo5(`rate: 0`): badRate, upTo5(`rate: 100001`): badRate, upTo5(`rate: unlimited`): badRate, upTo5(`rate: "100"`): badRate,
		},
	},
	"all changeable fields in one update": {
		from:     upTo5(`dryRun: true`),
		accepted: eachUpTo5(`dryRun: true, rate: 1, suspend: true, cancel: true, ttlSecondsAfterFinished: 60`),
		refused:  map[string]string{upTo5(`dryRun: false, rate: 1, suspend: true`): samePurge},
	},
	"cancel cannot be taken back": {
		from:     upTo5(`cancel: true`),
		accepted: eachUpTo5(`cancel: true`),
		refused: map[string]string{
			upTo5(`cancel: false`):  "spec.cancel: Invalid value: … a cancelled Purge stays cancelled: create another Purge",
			upTo5(`suspend: false`): "spec.cancel: Invalid value: … a cancelled Purge stays cancelled: create another Purge",
		},
	},
}

func TestPurgeValidation(t *testing.T) {
	t.Parallel()
	for _, sentence := range slices.Sorted(maps.Keys(purgeRules)) {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			r := purgeRules[sentence]
			r.kind = "Purge"
			r.check(t)
		})
	}
}
