package cli

import (
	"errors"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/jobs"
)

// The spec that the flags of a redrive form.
func TestRedriveFlags(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		args []string
		// want is the spec as YAML, without consumerQueueRef. refused is the usage error; empty if the flags are valid.
		want, refused string
	}{
		"all of them":    {want: "{}"},
		"fingerprints":   {args: []string{"--id=aaaaaaaaaaaaaaaa,bbbbbbbbbbbbbbbb"}, want: "selector: {ids: [aaaaaaaaaaaaaaaa, bbbbbbbbbbbbbbbb]}"},
		"reasons":        {args: []string{"--died-reason=rejected", "--died-reason=MAXLENGTH"}, want: "selector: {reasons: [Rejected, MaxLength]}"},
		"another reason": {args: []string{"--died-reason=boredom"}, refused: `--died-reason is "boredom": must be one of Rejected, Expired, MaxLength, DeliveryLimit, Parked`},
		"unknown origin": {args: []string{"--unknown-origin"}, want: "selector: {unknownOrigin: true}"},
		"a header":       {args: []string{"--header=x-tenant"}, want: "selector: {headers: [{name: x-tenant, operator: Exists}]}"},
		"no header":      {args: []string{"--header=!x-tenant"}, want: "selector: {headers: [{name: x-tenant, operator: DoesNotExist}]}"},
		"a header's values": {
			args: []string{"--header=x-tenant=acme", "--header=x-kind!=a=b", "--header=x-tenant=globex"},
			want: "selector: {headers: [{name: x-tenant, operator: In, values: [acme, globex]}, {name: x-kind, operator: NotIn, values: [a=b]}]}",
		},
		"a value with a comma": {
			args: []string{"--header=x-failure-message=timeout, retry"},
			want: "selector: {headers: [{name: x-failure-message, operator: In, values: ['timeout, retry']}]}",
		},
		"days": {
			args: []string{"--died-after=30d", "--died-before=1d12h"},
			want: `selector: {diedAfter: "2026-01-01T12:00:00Z", diedBefore: "2026-01-30T00:00:00Z"}`,
		},
		"a header without a name": {args: []string{"--header==acme"}, refused: `--header: "=acme" must be NAME, !NAME, NAME=VALUE or NAME!=VALUE`},
		"an expression":           {args: []string{"--expression=size > 5, age"}, want: `selector: {expression: "size > 5, age"}`},
		"times": {
			args: []string{"--died-after=2h", "--died-before=2026-01-31T11:30:00Z"},
			want: `selector: {diedAfter: "2026-01-31T10:00:00Z", diedBefore: "2026-01-31T11:30:00Z"}`,
		},
		"another time":           {args: []string{"--died-after=yesterday"}, refused: `--died-after is "yesterday": must be a time such as 2026-01-31T08:00:00Z, or 2h or 30d`},
		"days without a number":  {args: []string{"--died-after=d"}, refused: `--died-after is "d": must be a time such as 2026-01-31T08:00:00Z, or 2h or 30d`},
		"days that are negative": {args: []string{"--died-after=-3d"}, refused: `--died-after is "-3d": must be a time such as 2026-01-31T08:00:00Z, or 2h or 30d`},
		"a negative duration":    {args: []string{"--died-before=-2h"}, refused: `--died-before is "-2h": must be a time such as 2026-01-31T08:00:00Z, or 2h or 30d`},
		"how many":               {args: []string{"--max-messages=5", "--rate=20"}, want: "{maxMessages: 5, rate: 20}"},
		"as fast as can be":      {args: []string{"--rate=unlimited"}, want: "rate: Unlimited"},
		"a limit below one":      {args: []string{"--max-messages=-1"}, refused: "--max-messages is -1: must be at least 1"},
		"a limit of nothing":     {args: []string{"--max-messages=0"}, refused: "--max-messages is 0: must be at least 1"},
		"limits": {
			args: []string{"--max-redrives=unlimited", "--max-destination-depth=50", "--max-failures=1", "--remove-header=x-a", "--remove-header=x,b"},
			want: "{maxRedrives: Unlimited, maxDestinationDepth: 50, maxFailures: 1, removeHeaders: [x-a, 'x,b']}",
		},
		"no failures at all":   {args: []string{"--max-failures=0"}, refused: "--max-failures is 0: must be at least 1"},
		"no redrives at all":   {args: []string{"--max-redrives=0"}, refused: `--max-redrives is "0": must be a number from 1, or unlimited`},
		"another rate":         {args: []string{"--rate=fast"}, refused: `--rate is "fast": must be a number from 1, or unlimited`},
		"a tier":               {args: []string{"--to=Retry", "--delay=5m"}, want: "destination: {type: Retry, delay: 5m}"},
		"the first tier":       {args: []string{"--to=retry"}, want: "destination: {type: Retry}"},
		"a delay without tier": {args: []string{"--delay=5m"}, refused: "--delay requires --to retry: remove --delay, or add --to retry"},
		"where it came from":   {args: []string{"--to=original"}, want: "destination: {type: Original}"},
		"another":              {args: []string{"--to=consumerqueue/quarantine"}, want: "destination: {type: ConsumerQueue, consumerQueueRef: {name: quarantine}}"},
		"another without name": {args: []string{"--to=consumerqueue/"}, refused: `--to is "consumerqueue/": must be main, retry, original or consumerqueue/NAME`},
		"a queue":              {args: []string{"--to=orders"}, refused: `--to is "orders": must be main, retry, original or consumerqueue/NAME`},
		"why":                  {args: []string{"--reason=the API is back"}, want: "reason: the API is back"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flags, cmd := &redriveFlags{}, &cobra.Command{}
			flags.add(cmd)
			if err := cmd.ParseFlags(test.args); err != nil {
				t.Fatal(err)
			}
			got, err := flags.spec("orders", now)
			if test.refused != "" {
				wantUsage(t, err, test.refused)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := v1alpha1.RedriveSpec{}
			if err := yaml.UnmarshalStrict([]byte(test.want), &want); err != nil {
				t.Fatal(err)
			}
			want.ConsumerQueueRef.Name = "orders"
			equal := cmp.Comparer(func(a, b *metav1.Time) bool { return a.Equal(b) })
			if difference := cmp.Diff(want, got, equal); difference != "" {
				t.Errorf("spec (-want +got):\n%s", difference)
			}
		})
	}
}

func wantUsage(t *testing.T, err error, message string) {
	t.Helper()
	ends, ok := errors.AsType[*exit](err)
	if !ok || ends.code != exitError || ends.Error() != message {
		t.Errorf("want wrong usage, %q, got %v", message, err)
	}
}

// The same flags form the parameters of the dead-letter API, so that users browse the messages that they move.
func TestQueryFlags(t *testing.T) {
	t.Parallel()
	flags, cmd := &selectorFlags{}, &cobra.Command{}
	flags.add(cmd)
	if err := cmd.ParseFlags([]string{
		"--id=aaaaaaaaaaaaaaaa", "--died-reason=rejected", "--header=x-tenant=acme, inc", "--header=!x-kind", "--died-after=2h",
		"--died-before=2026-01-31T12:30:00+01:00", "--expression=size > 5", "--unknown-origin",
	}); err != nil {
		t.Fatal(err)
	}
	got, err := flags.query(time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	want := url.Values{
		"id": {"aaaaaaaaaaaaaaaa"}, "reason": {"Rejected"}, "header": {"x-tenant=acme, inc", "!x-kind"}, "expression": {"size > 5"},
		"diedAfter": {"2026-01-31T10:00:00Z"}, "diedBefore": {"2026-01-31T11:30:00Z"}, "unknownOrigin": {"true"},
	}
	if difference := cmp.Diff(want, got); difference != "" {
		t.Errorf("parameters (-want +got):\n%s", difference)
	}
}

// redriveIn is a Redrive with a status.
func redriveIn(t *testing.T, status string) *v1alpha1.Redrive {
	t.Helper()
	redrive := &v1alpha1.Redrive{}
	if err := yaml.UnmarshalStrict([]byte(status), &redrive.Status); err != nil {
		t.Fatal(err)
	}
	return redrive
}

// pace is the result of Job.Pace.
type pace struct {
	begun      bool
	done, left int64
}

func paceOf(j jobs.Job) pace {
	done, left, begun := j.Pace()
	return pace{begun, done, left}
}

const ended = `completionTime: "2026-01-31T12:00:00Z", `

func TestStages(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status string
		want   jobs.Outcome
		line   string
	}{
		"new":    {`{}`, jobs.Pending, "Pending"},
		"queued": {`{conditions: [{type: Ready, status: "Unknown", reason: Queued, message: "waits for Redrive \"a\""}]}`, jobs.Pending, `Queued: waits for Redrive "a"`},
		"moving": {`{total: 20, examined: 9, moved: 5, failed: 1, skipped: {NotSelected: 2, OtherOrigin: 1}, conditions: [{type: Ready, status: "Unknown", reason: Moving}]}`, jobs.Pending, "5 of 20 moved, 3 skipped, 1 failed"},
		"moved messages that are not certain yet": {`{total: 20, examined: 12, moved: 2, skipped: {NotSelected: 4}, conditions: [{type: Ready, status: "Unknown", reason: Moving}]}`, jobs.Pending, "2 of 20 moved, 4 skipped"},
		"held up":   {`{total: 20, conditions: [{type: Ready, status: "Unknown", reason: DestinationFull, message: is full}]}`, jobs.Pending, "0 of 20 moved, DestinationFull: is full"},
		"completed": {`{` + ended + `total: 2, examined: 2, moved: 2, conditions: [{type: Ready, status: "True", reason: Completed}]}`, jobs.Completed, "2 of 2 moved"},
		"cancelled": {`{` + ended + `total: 2, conditions: [{type: Ready, status: "True", reason: Cancelled}]}`, jobs.Cancelled, "0 of 2 moved"},
		"failed":    {`{` + ended + `total: 2, failed: 2, conditions: [{type: Ready, status: "False", reason: TooManyFailures}, {type: Stalled, status: "True"}]}`, jobs.Failed, "0 of 2 moved, 2 failed"},
		"stalled":   {`{conditions: [{type: Ready, status: "False", reason: InvalidSelector, message: m}, {type: Stalled, status: "True"}]}`, jobs.Stalled, "InvalidSelector: m"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redrive := jobs.Of(redriveIn(t, test.status))
			if got := redrive.Outcome; got != test.want {
				t.Errorf("jobs.Outcome %q, want %q", got, test.want)
			}
			if got := progressText(redrive); got != test.line {
				t.Errorf("progress %q, want %q", got, test.line)
			}
		})
	}
}

func TestRemaining(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		done, left int64
		want       string
	}{
		"nothing moved yet": {0, 60, ""},
		"20 in 10 s":        {20, 60, ", about 30s left"},
		"all moved":         {20, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := remaining(test.done, test.left, 10*time.Second); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
	if got, want := paceOf(jobs.Of(redriveIn(t, "{total: 100, examined: 40, moved: 30}"))), (pace{true, 30, 60}); got != want {
		t.Errorf("pace %v, want %v", got, want)
	}
}

// Messages of a queue with a delivery limit cannot be counted. Only a command for all messages may continue without a count.
func TestMessagesThatCannotBeCounted(t *testing.T) {
	t.Parallel()
	const advice = "without --dry-run, --max-messages and flags that select messages"
	counted := jobs.Job{Namespace: "shop", Message: "a count could lose messages"}
	spec := v1alpha1.RedriveSpec{ConsumerQueueRef: v1alpha1.LocalObjectReference{Name: "orders"}}
	selected, limited := spec, spec
	selected.Selector, limited.MaxMessages = &v1alpha1.DeadLetterSelector{}, new(int32(5))
	for name, test := range map[string]struct {
		dryRun         string
		spec           v1alpha1.RedriveSpec
		question, want string
	}{
		"all messages":      {spec: spec, question: "Move all dead letters of ConsumerQueue orders to the main queue, 100 a second, one at a time, without a count?"},
		"a dry run":         {dryRun: dryRunServer, spec: spec, want: advice},
		"selected messages": {spec: selected, want: advice},
		"some messages":     {spec: limited, want: advice},
	} {
		command := redriveCommand{jobCommand: jobCommand{say: io.Discard, dryRun: test.dryRun}}
		question, err := command.offerAll(counted, test.spec)
		if question != test.question {
			t.Errorf("%s: asks %q, want %q", name, question, test.question)
		}
		if (err != nil) != (test.want != "") || err != nil && !strings.HasSuffix(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
	}
}
