package cli

import (
	"strings"
	"testing"
)

// A script whose variable is empty must not select all messages, approve another plan, or check nothing.
func TestEmptyFlags(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ args, empty string }{
		{"dlq purge orders --expected-at-most 500 --yes --id=", "id"},
		{"dlq purge orders --expected-at-most 500 --yes --id=,", "id"},
		{"dlq purge orders --expected-at-most 500 --yes --id=aaaaaaaaaaaaaaaa,", "id"},
		{"dlq purge orders --expected-at-most 500 --yes --died-reason=", "died-reason"},
		{"dlq purge orders --expected-at-most 500 --yes --died-before=", "died-before"},
		{"dlq purge orders --expected-at-most 500 --yes --died-after=", "died-after"},
		{"dlq purge orders --expected-at-most 500 --yes --expression=", "expression"},
		{"dlq purge orders --expected-at-most 500 --yes --header=", "header"},
		{"dlq purge orders --expected-at-most 500 --yes --rate=", "rate"},
		{"dlq purge orders --expected-at-most 500 --yes --died-reason=Parked --id=", "id"},
		{"dlq redrive orders --yes --id=", "id"},
		{"dlq redrive orders --yes --rate=", "rate"},
		{"dlq redrive orders --yes --max-redrives=", "max-redrives"},
		{"dlq redrive orders --yes --max-destination-depth=", "max-destination-depth"},
		{"dlq redrive orders --yes --to retry --delay=", "delay"},
		{"dlq redrive orders --yes --remove-header=", "remove-header"},
		{"dlq peek orders --id=", "id"},
		{"dlq export orders --died-after=", "died-after"},
		{"dlq export orders --file=", "file"}, // would print messages unredacted to the log of a job
		{"approve orders --plan=", "plan"},
		{"contract orders --check=", "check"}, // would succeed whatever the contract is
		{"plan orders --filename=", "filename"},
		{"plan -f testdata/orders.yaml --broker-version=", "broker-version"},
	} {
		t.Run(test.args, func(t *testing.T) {
			t.Parallel()
			got := run(t, "", strings.Fields(test.args)...)
			want := result{errOut: "error: --" + test.empty + " is empty: give a value, or leave the flag out\n", code: exitError}
			if got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}

// An empty reason is the same as none. The flags of kubectl mean what they mean there.
func TestFlagsThatMayBeEmpty(t *testing.T) {
	t.Parallel()
	got := run(t, "", strings.Fields("dlq redrive orders --reason= --namespace= --as= --dry-run=client -o jsonpath={.spec}")...)
	if want := (result{out: `{"consumerQueueRef":{"name":"orders"}}`}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
