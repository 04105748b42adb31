package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	messaging "github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/check"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/deadletterclient"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/definitions"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/jobs"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/preview"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/printable"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/recreation"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/vhost"
)

// Each command escapes every text of a message, a spec or a broker, and JSON keeps its meaning.
func FuzzPrintable(f *testing.F) {
	for _, value := range []string{
		"Straße 7", "\x1b]0;owned\x07", "a\nb\tc", "\u202etxt.exe", "a\u00a0b", "\ufeffa", `a\u00a0b`, "a\U000e0041", "no UTF-8 \x9b",
	} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		wantText(t, "line", printable.Text(value), "")
		wantText(t, "lines", strings.Join(printable.Lines(value), "\n"), "\n\t")
		wantSameJSON(t, deadLetterOf(value))
		wantSameQueue(t, value)
		wantTextOfCommands(t, value)
	})
}

// wantTextOfCommands checks the output of each command. Names come from a spec or a broker, messages from a broker, bodies and
// headers from publishers.
func wantTextOfCommands(t *testing.T, value string) {
	t.Helper()
	for command, print := range printedByCommands(value) {
		out := &bytes.Buffer{}
		if err := print(out); err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		wantText(t, command, out.String(), "\n\t")
	}
}

// printNoTexts are the commands that print no text of a broker, a spec or a message. Names of jobs are DNS names.
var printNoTexts = []string{"completion", "dlq rate", "dlq resume", "dlq suspend", "ui"}

// printedByCommands are the output functions of commands, called with this value for each external text.
func printedByCommands(value string) map[string]func(out *bytes.Buffer) error {
	cq, redrive, queue := resourcesOf(value)
	queues := []messaging.ConsumerQueue{*cq}
	all := tableLayout{namespaces: true, wide: true, head: true}
	count := func(out *bytes.Buffer) error {
		command := &jobCommand{cluster: newCluster(genericiooptions.IOStreams{Out: out, ErrOut: out, In: strings.NewReader("")}), say: out}
		codeOf(command.sayCount(jobs.Of(redrive), value), out)
		command.ask(context.Background(), value)
		return command.sayCount(countedBy(redrive), value)
	}
	return map[string]func(out *bytes.Buffer) error{
		"plan": func(out *bytes.Buffer) error {
			return printPreview(out, preview.Preview{
				Namespace: value, ConsumerQueue: value, BrokerVersion: value, Notes: []string{value}, Objects: []preview.Object{
					{Kind: messaging.KindQueue, Name: value, Message: value, Arguments: vhost.Arguments{value: value}},
					{Kind: messaging.KindBinding, Source: value, Destination: value, RoutingKey: value, Type: messaging.ExchangeType(value)},
					{Kind: messaging.KindQueue, Differences: []preview.Difference{{Path: value, Desired: value, Observed: value}}},
				},
			}, true, false)
		},
		"approve": func(out *bytes.Buffer) error {
			planned := *cq
			planned.Spec.RecreatePolicy, planned.Status.PlanHash = messaging.RecreatePolicyMigrate, value
			return sayOr(out, planned, func(cq *messaging.ConsumerQueue) (string, error) { return recreation.Approve(cq, "") })
		},
		"abort": func(out *bytes.Buffer) error {
			planned := *cq
			planned.Status.Recreation = &messaging.RecreationStatus{ID: value, Queue: value}
			return sayOr(out, planned, func(cq *messaging.ConsumerQueue) (string, error) { return recreation.Abort(cq, "") })
		},
		"diff": func(out *bytes.Buffer) error { return printDiff(out, cq, true, false) },
		"tree": func(out *bytes.Buffer) error { return printTree(out, cq, false) },
		"status": func(out *bytes.Buffer) error {
			return errors.Join(printStatus(out, cq, false), printStatuses(out, queues, all))
		},
		"dlq ls": func(out *bytes.Buffer) error {
			return printDeadLetterQueues(out, []v1alpha1.DeadLetterQueue{queue}, now, all)
		},
		"dlq show": func(out *bytes.Buffer) error {
			waitPrinter(out)(value)
			printf(out, "%s", nextOf(queue, value))
			return printSummary(out, queue, now, false)
		},
		"dlq peek": func(out *bytes.Buffer) error {
			list := v1alpha1.DeadLetterList{Queue: value, Seen: queue.Summary.Seen}
			return printDeadLetters(out, list, []v1alpha1.DeadLetter{deadLetterOf(value)}, now)
		},
		"dlq export": func(out *bytes.Buffer) error {
			line, err := json.Marshal(v1alpha1.ExportedDeadLetter{ID: value, RoutingKey: value, Properties: map[string]any{value: value}})
			if err == nil {
				_, _, err = deadletterclient.CopyExport(out, strings.NewReader(string(line)+"\n"+`{"kind":"ExportEnd","count":1}`+"\n"))
			}
			return err
		},
		"dlq redrive": count,
		"dlq purge": func(out *bytes.Buffer) error {
			printf(out, "%s\n", purgeQuestion(value, messaging.PurgeSpec{ExpectedAtMost: 1}))
			return count(out)
		},
		"dlq jobs": func(out *bytes.Buffer) error { return printJobs(out, []jobs.Job{jobs.Of(redrive)}, now, all) },
		"dlq follow": func(out *bytes.Buffer) error {
			(&progress{out: out}).show(jobs.Of(redrive), now)
			codeOf(sayEnd(genericiooptions.IOStreams{Out: out, ErrOut: out}, jobs.Of(redrive)), out)
			return nil
		},
		"dlq cancel": func(out *bytes.Buffer) error {
			codeOf(alreadyEnded(jobs.Of(redrive)), out)
			return nil
		},
		"export": func(out *bytes.Buffer) error {
			_, err := (&output{format: formatJSON}).printed(out, definitions.File{Queues: []definitions.Queue{{Name: value, VHost: value}}})
			return err
		},
		"import": func(out *bytes.Buffer) error {
			printFindings(out, 1, vhost.RabbitMQ43, []definitions.Finding{{Kind: definitions.Differs, ConsumerQueue: value, Message: value}})
			return printQueues(out, []*messaging.ConsumerQueue{cq})
		},
		"contract": func(out *bytes.Buffer) error {
			document, err := documentOf(contract.Default(value))
			out.Write(document)
			return err
		},
		"version": func(out *bytes.Buffer) error {
			printVersions(out, versions{Managers: []check.Manager{{Namespace: value, Name: value, Image: value, Version: value}}})
			return nil
		},
		"check": func(out *bytes.Buffer) error {
			printChecks(out, []check.Result{{State: check.Failed, Check: value, Object: value, Message: value, Remedy: value}}, false)
			return nil
		},
		"report": func(out *bytes.Buffer) error {
			printMissing(out, []string{value})
			return nil
		},
		"any, with an error": func(out *bytes.Buffer) error {
			codeOf(errors.New(value), out)
			return nil
		},
		"any, with -o jsonpath": func(out *bytes.Buffer) error {
			o := &output{format: "jsonpath={.text}", allowed: []string{formatJSON}}
			if err := o.validate(); err != nil {
				return err
			}
			_, err := o.printed(out, map[string]string{"text": value})
			return err
		},
	}
}

// sayOr prints what a command says about a ConsumerQueue, or its error.
func sayOr(out *bytes.Buffer, cq messaging.ConsumerQueue, say func(*messaging.ConsumerQueue) (string, error)) error {
	said, err := say(&cq)
	printf(out, "%s\n", said)
	codeOf(err, out)
	return nil
}

// resourcesOf returns resources and a response of the dead-letter API in which each text is this value.
func resourcesOf(value string) (*messaging.ConsumerQueue, *messaging.Redrive, v1alpha1.DeadLetterQueue) {
	conditions := []metav1.Condition{{Type: messaging.ConditionReady, Status: metav1.ConditionFalse, Reason: value, Message: value}}
	cq := &messaging.ConsumerQueue{ObjectMeta: metav1.ObjectMeta{Namespace: value, Name: value}, Status: messaging.ConsumerQueueStatus{
		Conditions: conditions, Location: messaging.Location{VHost: value},
		Topology: []messaging.TopologyEntry{
			{Kind: messaging.KindQueue, Role: messaging.RoleMain, Name: value},
			{Kind: messaging.KindBinding, Source: value, Destination: value, RoutingKey: value, Arguments: value},
		},
		Changes:    []messaging.Change{{Kind: messaging.KindQueue, Name: value, Path: value, Desired: value, Observed: value}},
		Advisories: []messaging.Advisory{{Name: value, Message: value}},
	}}
	cq.Spec.Queue = &messaging.QueueSpec{Name: messaging.QueueName(value)}
	redrive := &messaging.Redrive{ObjectMeta: cq.ObjectMeta}
	redrive.Spec.ConsumerQueueRef.Name, redrive.Spec.RequestedBy = value, value
	redrive.Status.Conditions, redrive.Status.Source = conditions, messaging.QueueName(value)
	redrive.Status.Failures = []messaging.RedriveFailure{{ID: value, Reason: value, Message: value}}
	queue := v1alpha1.DeadLetterQueue{ObjectMeta: cq.ObjectMeta, Queue: value, Summary: &v1alpha1.Summary{
		GroupBy: value, Groups: []v1alpha1.Group{{Reason: value, Queue: value, Value: &value, SampleID: value}}, Others: 1,
		Seen: v1alpha1.Seen{
			Partial: true, PartialReason: v1alpha1.PartialReason(value), Skipped: map[string]int64{value: 1, "NotEvaluated": 1},
			EvaluationError: value,
		},
	}}
	return cq, redrive, queue
}

// countedBy returns a job that has counted.
func countedBy(redrive *messaging.Redrive) jobs.Job {
	done := redrive.DeepCopy()
	done.Status.CompletionTime = new(metav1.NewTime(now))
	done.Status.Conditions[0].Reason = messaging.ReasonIncomplete
	done.Status.Skipped = map[string]int64{"NotEvaluated": 1}
	return jobs.Of(done)
}

func deadLetterOf(value string) v1alpha1.DeadLetter {
	return v1alpha1.DeadLetter{
		ID: value, Reason: value, Origin: v1alpha1.Origin{Queue: value, Exchange: &value, RoutingKey: &value},
		Properties: map[string]any{value: value, "list": []any{value}},
		Headers: map[string]any{
			value: value, "x-death": []any{value, map[string]any{"reason": value, "queue": value, "time": value, "routing-keys": value}},
		},
		Body: value, BodyEncoding: v1alpha1.UTF8, Warnings: []v1alpha1.Warning{v1alpha1.Warning(value)},
	}
}

// A new command must be added to the fuzz test.
func TestFuzzPrintableCoversEachCommand(t *testing.T) {
	t.Parallel()
	streams, _, _, _ := genericiooptions.NewTestIOStreams()
	covered := printedByCommands("")
	var checkCommand func(cmd *cobra.Command)
	checkCommand = func(cmd *cobra.Command) {
		name := strings.TrimPrefix(cmd.CommandPath(), "kubectl warren ")
		if !cmd.HasSubCommands() && covered[name] == nil && !slices.Contains(printNoTexts, name) {
			t.Errorf("FuzzPrintable does not cover %q", name)
		}
		for _, each := range cmd.Commands() {
			checkCommand(each)
		}
	}
	checkCommand(newRoot(streams))
}

func wantSameJSON(t *testing.T, deadLetter v1alpha1.DeadLetter) {
	t.Helper()
	answer, err := json.Marshal(deadLetter)
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{formatJSON, formatYAML} {
		out := &bytes.Buffer{}
		if _, err := (&output{format: format}).printedAnswer(out, answer); err != nil {
			t.Fatal(err)
		}
		wantText(t, format, out.String(), "\n")
	}
	got, want := any(nil), any(nil)
	if err := json.Unmarshal(printable.JSON(answer), &got); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	if err := json.Unmarshal(answer, &want); err != nil {
		t.Fatal(err)
	}
	if difference := cmp.Diff(want, got); difference != "" {
		t.Errorf("JSON that is printed (-want +got):\n%s", difference)
	}
}

// wantSameQueue checks that the YAML of an imported queue has the same names.
func wantSameQueue(t *testing.T, value string) {
	t.Helper()
	cq, _, _ := resourcesOf(strings.ToValidUTF8(value, "\ufffd"))
	out := &bytes.Buffer{}
	if err := printQueues(out, []*messaging.ConsumerQueue{cq}); err != nil {
		t.Fatal(err)
	}
	got := messaging.ConsumerQueue{}
	if err := yaml.UnmarshalStrict(out.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := messaging.ConsumerQueue{ObjectMeta: cq.ObjectMeta, Spec: cq.Spec}
	if difference := cmp.Diff(want, got); difference != "" {
		t.Errorf("queue that is printed (-want +got):\n%s", difference)
	}
}

func wantText(t *testing.T, what, got, allowed string) {
	t.Helper()
	for _, character := range got {
		if !unicode.IsPrint(character) && !strings.ContainsRune(allowed, character) {
			t.Errorf("%s: %U is printed as it is, in %q", what, character, got)
		}
	}
}
