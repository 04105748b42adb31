package cli

import (
	"strings"
	"testing"
)

// Commands that are refused, or that fail without a cluster, and their errors.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ args, want string }{
		{
			"plan -f testdata/typo.yaml --broker-version 4.3",
			`testdata/typo.yaml: ConsumerQueue "orders": strict decoding error: unknown field "spec.retry.delayTier"`,
		},
		{"plan -f testdata/none.yaml --broker-version 4.3", `the path "testdata/none.yaml" does not exist`},
		{
			"plan -f testdata/orders.yaml --broker-version four",
			`--broker-version: RabbitMQ version "four": must consist of numbers, as in 4.3.6`,
		},
		{"plan", "give either -f FILE or the NAME of a ConsumerQueue; see kubectl warren plan --help"},
		{
			"plan orders -f testdata/orders.yaml",
			"give either -f FILE or the NAME of a ConsumerQueue; see kubectl warren plan --help",
		},
		{
			"plan orders --broker-version 4.3",
			"--broker-version requires -f: a ConsumerQueue in the cluster is compared with its own broker",
		},
		{
			"plan -f testdata/orders.yaml --broker-version 4.3 -o xml",
			`--output is "xml": must be one of table, wide, json, yaml, jsonpath=TEMPLATE, go-template=TEMPLATE`,
		},
		{
			"export -f testdata/orders.yaml",
			"-f and --broker-version require each other: without a cluster, the version of the broker is unknown",
		},
		{"export", "give either the NAMEs of ConsumerQueues or -f FILE; see kubectl warren export --help"},
		{"contract -f testdata/two.yaml --broker-version 4.3", "the files of -f have 2 ConsumerQueues: name one"},
		{"contract refunds -f testdata/two.yaml --broker-version 4.3", `the files of -f have no ConsumerQueue "refunds"`},
		{
			"contract -f testdata/orders.yaml",
			"-f and --broker-version require each other: without a cluster, the version of the broker is unknown",
		},
		{
			"contract -f testdata/orders.yaml --broker-version 3.9",
			`ConsumerQueue "orders": Warren needs RabbitMQ 3.10 or newer and this broker is 3.9: upgrade the broker`,
		},
		{"contract", "give either the NAME of a ConsumerQueue or -f FILE; see kubectl warren contract --help"},
		{
			"contract -f testdata/orders.yaml --broker-version 4.3 --check testdata/definitions.json",
			`file "testdata/definitions.json": contract: apiVersion is "", but this version of the library supports only ` +
				"\"contract.warren.dev/v1\": upgrade the library\n" +
				"contract: queue is missing: name the main queue\n" +
				"contract: virtualHost is missing: \"/\" is RabbitMQ's default\n" +
				`contract: strategy is "", but this version of the library supports only ["Publish" "Reject" "Requeue" "None"]: ` +
				"upgrade the library\n" +
				"contract: maxAttempts is 0 and must be at least 1",
		},
		{
			"contract -f testdata/orders.yaml --broker-version 4.3 --check testdata/none.json",
			"open testdata/none.json: no such file or directory",
		},
		{
			"import testdata/two-vhosts.json --broker-version 4.3",
			`the file has several vhosts: choose one with --vhost: "x", "y"`,
		},
		{"import testdata/two-vhosts.json --broker-version 4.3 --vhost z", `--vhost is "z": the file has "x", "y"`},
		{
			"import testdata/two-vhosts.json --vhost x",
			"the file does not contain the RabbitMQ version: add --broker-version, such as 4.3",
		},
		{"import testdata/definitions.json --drift-policy Ignore", `--drift-policy is "Ignore": must be Report or Correct`},
		{"import testdata/none.json", "open testdata/none.json: no such file or directory"},
		{
			"import testdata/orders.yaml",
			"the file is not a definitions.json: invalid character 'a' looking for beginning of value",
		},
		{"completion", "give a shell or --for-kubectl; see kubectl warren completion --help"},
		{"completion tcsh", `there is no completion for "tcsh": give one of bash, zsh, fish, powershell`},
		{"dlq redrive orders --to elsewhere", `--to is "elsewhere": must be main, retry, original or consumerqueue/NAME`},
		{
			"dlq purge orders --died-reason Parked",
			"--expected-at-most N is missing: give the largest number of messages that you expect. To count the messages first, " +
				"use --dry-run instead",
		},
		{
			"dlq purge orders --expected-at-most 0 --yes",
			"--expected-at-most N is missing: give the largest number of messages that you expect. To count the messages first, " +
				"use --dry-run instead",
		},
		{"dlq purge orders --expected-at-most -5", "--expected-at-most is -5: must be at least 1"},
		{
			"dlq purge orders --expected-at-most 3000000000",
			`invalid argument "3000000000" for "--expected-at-most" flag: strconv.ParseInt: parsing "3000000000": value out ` +
				"of range; see kubectl warren dlq purge --help",
		},
		{"dlq purge orders --to main", "unknown flag: --to; see kubectl warren dlq purge --help"},
		{
			"dlq purge --dry-run",
			"the usage is `kubectl warren dlq purge NAME (--expected-at-most N | --dry-run) [flags]` (accepts 1 arg(s), received 0); see kubectl " +
				"warren dlq purge --help",
		},
		{
			"dlq purge orders --dry-run -o wide",
			`--output is "wide": must be one of table, json, yaml, name, jsonpath=TEMPLATE, go-template=TEMPLATE`,
		},
		{"dlq redrive orders --dry-run=client -o jsonpath={.spec", "--output: error parsing jsonpath {.spec, unclosed action"},
		{"dlq redrive orders --dry-run=maybe", `--dry-run is "maybe": must be none, server or client`},
		{"dlq rate orders-1 fast", `rate is "fast": must be a number from 1, or unlimited`},
		{
			"dlq rate orders-1",
			"the usage is `kubectl warren dlq rate NAME (N | unlimited) [flags]` (accepts 2 arg(s), received 1); see kubectl warren " +
				"dlq rate --help",
		},
		{"dlq jobs orders -A", "NAME and --all-namespaces are mutually exclusive: remove one of them"},
		{
			"dlq follow consumerqueue/orders",
			`"consumerqueue/orders" is neither a Redrive nor a Purge: give NAME, redrive/NAME or purge/NAME`,
		},
		{"dlq cancel purge/", `"purge/" is neither a Redrive nor a Purge: give NAME, redrive/NAME or purge/NAME`},
		{"dlq look orders", `there is no command "kubectl warren dlq look"; see kubectl warren dlq --help`},
		{
			"dlq show",
			"the usage is `kubectl warren dlq show NAME [flags]` (accepts 1 arg(s), received 0); see kubectl warren dlq show --help",
		},
		{
			"dlq peek orders --died-reason boredom",
			`--died-reason is "boredom": must be one of Rejected, Expired, MaxLength, DeliveryLimit, Parked`,
		},
		{
			"dlq peek orders --limit many",
			`invalid argument "many" for "--limit" flag: strconv.ParseInt: parsing "many": invalid syntax; see kubectl ` +
				"warren dlq peek --help",
		},
		{
			"dlq peek orders -o wide",
			`--output is "wide": must be one of table, json, yaml, name, jsonpath=TEMPLATE, go-template=TEMPLATE`,
		},
		{
			"dlq peek orders",
			`Get "http://127.0.0.1:1/apis/deadletters.messaging.warren.dev/v1alpha1": dial tcp 127.0.0.1:1: connect: ` +
				"connection refused: check that the API server is running, and check --context",
		},
		{
			"dlq export orders --file testdata/orders.yaml",
			"testdata/orders.yaml exists: choose another name for --file, or replace the file with --force",
		},
		{"dlq ls orders -A", "NAME and --all-namespaces are mutually exclusive: remove one of them"},
		{"tree orders --colour", "unknown flag: --colour; see kubectl warren tree --help"},
		{"stats", `there is no command "kubectl warren stats"; did you mean status?; see kubectl warren --help`},
		{"tree", "the usage is `kubectl warren tree NAME [flags]` (accepts 1 arg(s), received 0); see kubectl warren tree --help"},
		{"status orders -A", "NAME and --all-namespaces are mutually exclusive: remove one of them"},
		{"status -w -o json", "--watch prints a table: remove --output json"},
		{
			"diff orders",
			`failed to get server groups: Get "http://127.0.0.1:1/api": dial tcp 127.0.0.1:1: connect: connection refused: ` +
				"check that the API server is running, and check --context",
		},
	} {
		t.Run(test.args, func(t *testing.T) {
			t.Parallel()
			got := run(t, "", strings.Fields(test.args)...)
			if want := (result{errOut: "error: " + test.want + "\n", code: exitError}); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}
