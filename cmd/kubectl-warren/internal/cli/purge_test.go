package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/jobs"
)

// The spec that the flags of a purge form. The redrive tests cover the flags that select messages.
func TestPurgeFlags(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		// want is the spec as YAML, without consumerQueueRef; or a usage error.
		want, refused string
	}{
		"nothing": {want: "{}"},
		"some of them": {
			args: []string{"--expected-at-most=12", "--died-reason=parked", "--header=!x-tenant", "--expression=size > 5"},
			want: "{expectedAtMost: 12, selector: {reasons: [Parked], headers: [{name: x-tenant, operator: DoesNotExist}], expression: size > 5}}",
		},
		"slowly":              {args: []string{"--expected-at-most=12", "--rate=20"}, want: "{expectedAtMost: 12, rate: 20}"},
		"as fast as can be":   {args: []string{"--expected-at-most=12", "--rate=unlimited"}, want: "{expectedAtMost: 12, rate: Unlimited}"},
		"why":                 {args: []string{"--reason=too old"}, want: "reason: too old"},
		"a limit below one":   {args: []string{"--expected-at-most=-1"}, refused: "--expected-at-most is -1: must be at least 1"},
		"another rate":        {args: []string{"--rate=fast"}, refused: `--rate is "fast": must be a number from 1, or unlimited`},
		"a time that is none": {args: []string{"--died-before=today"}, refused: `--died-before is "today": must be a time such as 2026-01-31T08:00:00Z, or 2h or 30d`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flags, cmd := &purgeFlags{}, &cobra.Command{}
			flags.add(cmd)
			if err := cmd.ParseFlags(test.args); err != nil {
				t.Fatal(err)
			}
			got, err := flags.spec("orders", time.Now())
			if test.refused != "" {
				wantUsage(t, err, test.refused)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := v1alpha1.PurgeSpec{}
			if err := yaml.UnmarshalStrict([]byte(test.want), &want); err != nil {
				t.Fatal(err)
			}
			want.ConsumerQueueRef.Name = "orders"
			if difference := cmp.Diff(want, got); difference != "" {
				t.Errorf("spec (-want +got):\n%s", difference)
			}
		})
	}
}

// purgeIn is a Purge with a status.
func purgeIn(t *testing.T, status string) *v1alpha1.Purge {
	t.Helper()
	purge := &v1alpha1.Purge{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders-wl7xb"}}
	if err := yaml.UnmarshalStrict([]byte(status), &purge.Status); err != nil {
		t.Fatal(err)
	}
	return purge
}

func TestStagesOfAPurge(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status string
		want   jobs.Outcome
		line   string
		pace   pace
	}{
		"new":      {`{}`, jobs.Pending, "Pending", pace{}},
		"queued":   {`{conditions: [{type: Ready, status: "Unknown", reason: Queued, message: "waits for Redrive \"a\""}]}`, jobs.Pending, `Queued: waits for Redrive "a"`, pace{}},
		"counting": {`{total: 20, examined: 9, skipped: {NotSelected: 4, OtherOrigin: 2}, conditions: [{type: Ready, status: "Unknown", reason: Counting}]}`, jobs.Pending, "9 of 20 examined, 6 skipped", pace{}},
		"deleting": {
			`{total: 20, examined: 20, matched: 14, deleted: 5, atMost: 14, skipped: {NotSelected: 6}, conditions: [{type: Ready, status: "Unknown", reason: Deleting}]}`,
			jobs.Pending, "5 of 14 deleted, 6 skipped",
			pace{true, 5, 9},
		},
		"held up between": {`{total: 20, examined: 20, matched: 20, deleted: 0, conditions: [{type: Ready, status: "Unknown", reason: Queued, message: m}]}`, jobs.Pending, "0 of 20 deleted, Queued: m", pace{true, 0, 20}},
		"completed":       {`{` + ended + `total: 2, examined: 2, matched: 2, deleted: 2, conditions: [{type: Ready, status: "True", reason: Completed}]}`, jobs.Completed, "2 of 2 deleted", pace{true, 2, 0}},
		"cancelled":       {`{` + ended + `total: 2, matched: 2, deleted: 1, conditions: [{type: Ready, status: "True", reason: Cancelled}]}`, jobs.Cancelled, "1 of 2 deleted", pace{true, 1, 1}},
		"too many":        {`{` + ended + `total: 2, matched: 2, deleted: 0, conditions: [{type: Ready, status: "False", reason: MoreThanExpected}, {type: Stalled, status: "True"}]}`, jobs.Failed, "0 of 2 deleted", pace{true, 0, 2}},
		"interrupted":     {`{` + ended + `total: 2, matched: 2, deleted: 1, atMost: 2, conditions: [{type: Ready, status: "False", reason: Interrupted}, {type: Stalled, status: "True"}]}`, jobs.Failed, "1 to 2 of 2 deleted", pace{true, 1, 1}},
		"stalled":         {`{conditions: [{type: Ready, status: "False", reason: InvalidSelector, message: m}, {type: Stalled, status: "True"}]}`, jobs.Stalled, "InvalidSelector: m", pace{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			purge := jobs.Of(purgeIn(t, test.status))
			if got := purge.Outcome; got != test.want {
				t.Errorf("jobs.Outcome %q, want %q", got, test.want)
			}
			if got := progressText(purge); got != test.line {
				t.Errorf("progress %q, want %q", got, test.line)
			}
			if got := paceOf(purge); got != test.pace {
				t.Errorf("pace %v, want %v", got, test.pace)
			}
		})
	}
}

// The output of a dry run never says that messages were deleted.
func TestProgressOfACount(t *testing.T) {
	t.Parallel()
	counted := purgeIn(t, `{total: 20, examined: 20, matched: 14, deleted: 0, skipped: {NotSelected: 6}}`)
	counted.Spec.DryRun = true
	if got, want := progressText(jobs.Of(counted)), "20 of 20 examined, 6 skipped"; got != want {
		t.Errorf("progress %q, want %q", got, want)
	}
}

// The output at the end of a Purge, and the exit code.
func TestEndsOfAPurge(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status string
		code   int
	}{
		"completed":  {`{` + ended + `conditions: [{type: Ready, status: "True", reason: Completed, message: "deleted 2 of 2 messages that match"}]}`, 0},
		"incomplete": {`{` + ended + `conditions: [{type: Ready, status: "False", reason: Incomplete, message: "deleted 2 of 2 messages that match, 1 not seen"}]}`, exitIncomplete},
		"cancelled":  {`{` + ended + `conditions: [{type: Ready, status: "True", reason: Cancelled, message: "deleted 1 of 2 messages that match"}]}`, exitCancelled},
		"failed":     {`{` + ended + `conditions: [{type: Ready, status: "False", reason: MoreThanExpected, message: "3 messages match, and spec.expectedAtMost is 2: none was deleted"}]}`, exitFailed},
		"stalled":    {`{conditions: [{type: Ready, status: "False", reason: PermissionDenied, message: "the broker refuses"}, {type: Stalled, status: "True"}]}`, exitFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			streams, _, out, errOut := genericiooptions.NewTestIOStreams()
			if got := codeOf(sayEnd(streams, jobs.Of(purgeIn(t, test.status))), errOut); got != test.code {
				t.Errorf("exit code is %d, want %d", got, test.code)
			}
			golden(t, "purge-"+name, out.String()+"--- stderr\n"+errOut.String())
		})
	}
}

// A count is Incomplete if another consumer uses the queue, even if all messages were counted. The exit code reports that, and also
// if the job after the count completes.
func TestAnIncompleteCount(t *testing.T) {
	t.Parallel()
	kube := fakeSession(t, interceptor.Funcs{
		Create: func(ctx context.Context, kube client.WithWatch, object client.Object, options ...client.CreateOption) error {
			object.(*v1alpha1.Purge).Status = purgeIn(t, `{`+ended+`conditions: [{type: Ready, status: "True", reason: Completed}]}`).Status
			return kube.Create(ctx, object, options...)
		},
	})
	for name, test := range map[string]struct{ status, errOut string }{
		"some messages were not counted": {
			`{total: 9, examined: 8, skipped: {NotSelected: 2}, `, "Not all messages were counted: 8 of 9 examined, 2 skipped.\n",
		},
		"all messages were counted": {`{total: 9, examined: 9, skipped: {NotSelected: 2}, `, ""},
	} {
		out, errOut := &bytes.Buffer{}, &bytes.Buffer{}
		command := jobCommand{
			cluster: newCluster(genericiooptions.IOStreams{Out: out, ErrOut: errOut}), say: out, output: &output{format: formatTable},
		}
		counted := purgeIn(t, test.status+ended+`conditions: [{type: Ready, status: "False", reason: Incomplete, message: m}]}`)
		counted.Spec.DryRun = true
		if err := command.sayCount(jobs.Of(counted), "orders"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if errOut.String() != test.errOut {
			t.Errorf("%s: %q, want %q", name, errOut, test.errOut)
		}
		for does, err := range map[string]error{
			"only counts":              command.endCount(jobs.Of(counted)),
			"deletes what was counted": command.carryOut(t.Context(), kube, jobs.Of(counted), &v1alpha1.Purge{ObjectMeta: generated("shop", "orders")}),
		} {
			if code := codeOf(err, io.Discard); code != exitIncomplete {
				t.Errorf("%s: exit code %d of a command that %s, want %d", name, code, does, exitIncomplete)
			}
		}
	}
}

func TestMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		matched int64
		limit   int32
		want    string
	}{
		{12, 12, ""},
		{1 << 40, 0, ""},
		{13, 12, "13 messages match, and --expected-at-most is 12: none is deleted. Select fewer messages, or increase --expected-at-most"},
	} {
		got := ""
		if err := asExpected(test.matched, test.limit); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%d of at most %d: %q, want %q", test.matched, test.limit, got, test.want)
		}
	}
}

// Only the number of messages confirms a deletion.
func TestNumberTyped(t *testing.T) {
	t.Parallel()
	for answer, deletes := range map[string]bool{
		"12\n": true, "12 \n": true, "12": true, "y\n": false, "yes\n": false, "\n": false, "": false, "1\n": false, "120\n": false, "0012\n": false,
	} {
		errOut := &bytes.Buffer{}
		p := &purgeCommand{jobCommand: jobCommand{cluster: newCluster(genericiooptions.IOStreams{In: strings.NewReader(answer), ErrOut: errOut})}}
		err := p.confirm(t.Context(), "orders.dlq", v1alpha1.PurgeSpec{ExpectedAtMost: 12})
		if deletes != (err == nil) {
			t.Errorf("%q: %v", answer, err)
		}
		if err != nil && err.Error() != "cancelled. No message was deleted: type 12, the number of messages, or add --yes" {
			t.Errorf("%q: %v", answer, err)
		}
		if want := "Delete 12 messages from orders.dlq? They cannot be recovered. Type the number of messages to delete: "; errOut.String() != want {
			t.Errorf("%q, want %q", errOut, want)
		}
	}
}

func TestPurgeQuestion(t *testing.T) {
	t.Parallel()
	for want, spec := range map[string]v1alpha1.PurgeSpec{
		"Delete 1 message from q? They cannot be recovered. Type the number of messages to delete:":               {ExpectedAtMost: 1, Rate: new(intstr.FromString("Unlimited"))},
		"Delete 2 messages from q, 20 a second? They cannot be recovered. Type the number of messages to delete:": {ExpectedAtMost: 2, Rate: new(intstr.FromInt32(20))},
	} {
		if got := purgeQuestion("q", spec); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestJobsNamed(t *testing.T) {
	t.Parallel()
	for argument, want := range map[string]string{
		"orders-1": "Redrive orders-1 Purge orders-1", "redrive/orders-1": "Redrive orders-1", "redrives/orders-1": "Redrive orders-1",
		"purge/orders-1": "Purge orders-1", "Purges/orders-1": "Purge orders-1", "purge.messaging.warren.dev/orders-1": "Purge orders-1",
		"": "", "/": "", "purge/": "", "purge/a/b": "", "consumerqueue/orders": "",
	} {
		var got []string
		named, err := jobsNamed(argument, "shop")
		for _, each := range named {
			got = append(got, jobs.Of(each).Noun(), each.GetName())
		}
		if err != nil {
			wantUsage(t, err, `"`+argument+`" is neither a Redrive nor a Purge: give NAME, redrive/NAME or purge/NAME`)
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%q is %q, want %q", argument, got, want)
		}
	}
}

// A job is silent if Warren has not read it, or if its counts do not change.
func TestSilentJobs(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status    string
		unchanged time.Duration
		want      bool
	}{
		"new, for 9 s":          {`{observedGeneration: -1}`, 9 * time.Second, false},
		"new, for 10 s":         {`{observedGeneration: -1}`, 10 * time.Second, true},
		"a change, for 10 s":    {`{observedGeneration: 1, conditions: [{type: Ready, reason: Deleting}]}`, 10 * time.Second, true},
		"deletes, for a minute": {`{observedGeneration: 2, conditions: [{type: Ready, reason: Deleting}]}`, time.Minute, false},
		"deletes, for 2 m":      {`{observedGeneration: 2, conditions: [{type: Ready, reason: Deleting}]}`, 2 * time.Minute, true},
		"waits, for an hour":    {`{observedGeneration: 2, conditions: [{type: Ready, reason: Queued}]}`, time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			purge := purgeIn(t, test.status)
			purge.Generation = 2
			if got := isSilent(jobs.Of(purge), test.unchanged); got != test.want {
				t.Errorf("silent %v, want %v", got, test.want)
			}
		})
	}
}

func TestPrintJobs(t *testing.T) {
	t.Parallel()
	of := metav1.ObjectMeta{Namespace: "shop", Name: "orders-wl7xb", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}
	redrive := redriveIn(t, `{total: 1204, examined: 490, moved: 245, skipped: {NotSelected: 245}, conditions: [{type: Ready, status: "Unknown", reason: Moving, message: m}]}`)
	redrive.ObjectMeta, redrive.Spec.ConsumerQueueRef.Name, redrive.Spec.RequestedBy = of, "orders", "jane"
	waiting := purgeIn(t, `{conditions: [{type: Ready, status: "Unknown", reason: Queued, message: 'Redrive "orders-wl7xb" comes first, and has not ended'}]}`)
	waiting.CreationTimestamp, waiting.Spec.ConsumerQueueRef.Name = metav1.NewTime(now.Add(-time.Minute)), "orders"
	golden(t, "jobs", printed(t, func(out *bytes.Buffer) error {
		return printJobs(out, []jobs.Job{jobs.Of(waiting), jobs.Of(redrive)}, now, tableLayout{namespaces: true, wide: true, head: true})
	}))
}

// The advice for users who lack a role, or mistyped a name.
func TestErrorsExplained(t *testing.T) {
	t.Parallel()
	of := func(resource string) schema.GroupResource {
		return v1alpha1.GroupVersion.WithResource(resource).GroupResource()
	}
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"no role for Purges": {
			apierrors.NewForbidden(of("purges"), "", errors.New("not you")),
			"deleting dead letters needs the role admin in the namespace; view is enough to list Purges",
		},
		"no role for Redrives": {
			apierrors.NewForbidden(of("redrives"), "", errors.New("not you")),
			"ask for a role in the namespace. Reading needs the role view. Moving dead letters, and approving or aborting a recreation, need the role edit",
		},
		"no role for all namespaces": {
			apierrors.NewForbidden(of("consumerqueues"), "", errors.New("not you at the cluster scope")),
			"-A needs a cluster role; for one namespace, add --namespace NAME",
		},
		"no API server": {
			&url.Error{Op: "Get", URL: "https://127.0.0.1:1", Err: syscall.ECONNREFUSED}, "check that the API server is running, and check --context",
		},
		"credentials that expired": {
			apierrors.NewUnauthorized("Unauthorized"), "the API server does not accept your credentials. Log in again, or choose another --context",
		},
		"no such Redrive": {
			apierrors.NewNotFound(of("redrives"), "orders-1"),
			"`kubectl warren dlq jobs` lists the Redrives and Purges of the namespace",
		},
		"no such ConsumerQueue": {
			apierrors.NewNotFound(of("consumerqueues"), "orders"), "check the name and --namespace. `kubectl warren status -A` lists the ConsumerQueues of all namespaces",
		},
	} {
		if got, want := explain(test.err), test.err.Error()+": "+test.want; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
