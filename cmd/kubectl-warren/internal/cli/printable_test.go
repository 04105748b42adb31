package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	messaging "github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/printable"
)

// Whatever a message holds, a terminal gets text, and JSON stays the same JSON.
func FuzzPrintable(f *testing.F) {
	for _, value := range []string{"Straße 7", "\x1b]0;owned\x07", "a\nb\tc", "\u202etxt.exe", "a\U000e0041", "no UTF-8 \x9b"} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		wantText(t, "line", printable.Text(value), "")
		wantText(t, "lines", strings.Join(printable.Lines(value), "\n"), "\n\t")
		letter := v1alpha1.DeadLetter{
			ID: value, Reason: value, Origin: v1alpha1.Origin{Queue: value, Exchange: &value, RoutingKey: &value},
			Properties: map[string]any{value: value, "list": []any{value}},
			Headers: map[string]any{
				value: value, "x-death": []any{value, map[string]any{"reason": value, "queue": value, "time": value, "routing-keys": value}},
			},
			Body: value, BodyEncoding: v1alpha1.UTF8, Warnings: []v1alpha1.Warning{v1alpha1.Warning(value)},
		}
		out := &bytes.Buffer{}
		if err := printLetter(out, letter, now); err != nil {
			t.Fatal(err)
		}
		wantText(t, "letter", out.String(), "\n\t")
		wantSameJSON(t, letter)
		wantTextOfResources(t, value)
	})
}

// wantTextOfResources checks what the commands print about resources: names come from a spec or a broker, messages from a broker.
func wantTextOfResources(t *testing.T, value string) {
	t.Helper()
	conditions := []metav1.Condition{{Type: messaging.ConditionReady, Status: metav1.ConditionFalse, Reason: value, Message: value}}
	cq := messaging.ConsumerQueue{ObjectMeta: metav1.ObjectMeta{Namespace: value, Name: value}, Status: messaging.ConsumerQueueStatus{
		Conditions: conditions, VHost: value,
		Topology: []messaging.TopologyEntry{
			{Kind: messaging.KindQueue, Role: messaging.RoleMain, Name: value},
			{Kind: messaging.KindBinding, Source: value, Destination: value, RoutingKey: value, Arguments: value},
		},
		Changes:    []messaging.Change{{Kind: messaging.KindQueue, Name: value, Path: value, Desired: value, Observed: value}},
		Advisories: []messaging.Advisory{{Name: value, Message: value}},
	}}
	cq.Spec.Queue = &messaging.QueueSpec{Name: messaging.QueueName(value)}
	redrive := redriveJob{&messaging.Redrive{ObjectMeta: cq.ObjectMeta}}
	redrive.redrive.Spec.ConsumerQueueRef.Name, redrive.redrive.Spec.RequestedBy = value, value
	redrive.redrive.Status.Conditions = conditions
	redrive.redrive.Status.Failures = []messaging.RedriveFailure{{ID: value, Reason: value, Message: value}}
	for what, print := range map[string]func(*bytes.Buffer) error{
		"tree":   func(out *bytes.Buffer) error { return printTree(out, &cq, false) },
		"diff":   func(out *bytes.Buffer) error { return printDiff(out, &cq, true, false) },
		"status": func(out *bytes.Buffer) error { return printStatus(out, &cq, false) },
		"list": func(out *bytes.Buffer) error {
			return printStatuses(out, []messaging.ConsumerQueue{cq}, tableLook{namespaces: true, wide: true, head: true})
		},
		"dead-letter queues": func(out *bytes.Buffer) error {
			queue := v1alpha1.DeadLetterQueue{ObjectMeta: cq.ObjectMeta, Queue: value}
			return printDeadLetterQueues(out, []v1alpha1.DeadLetterQueue{queue}, now, tableLook{namespaces: true, head: true})
		},
		"jobs": func(out *bytes.Buffer) error {
			return printJobs(out, []job{redrive}, now, tableLook{namespaces: true, wide: true, head: true})
		},
		"end": func(out *bytes.Buffer) error {
			codeOf(sayEnd(genericiooptions.IOStreams{Out: out, ErrOut: out}, redrive), out)
			return nil
		},
		"progress": func(out *bytes.Buffer) error {
			(&progress{out: out}).show(redrive, now)
			return nil
		},
		"error": func(out *bytes.Buffer) error {
			codeOf(errors.New(value), out)
			return nil
		},
	} {
		out := &bytes.Buffer{}
		if err := print(out); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		wantText(t, what, out.String(), "\n\t")
	}
}

func wantSameJSON(t *testing.T, letter v1alpha1.DeadLetter) {
	t.Helper()
	answer, err := json.Marshal(letter)
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{formatJSON, formatYAML} {
		out := &bytes.Buffer{}
		if _, err := (&output{format: format}).printedAnswer(out, answer); err != nil {
			t.Fatal(err)
		}
		wantControlFree(t, format, out.String())
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

func wantText(t *testing.T, what, got, allowed string) {
	t.Helper()
	for _, character := range got {
		if !unicode.IsPrint(character) && !strings.ContainsRune(allowed, character) {
			t.Errorf("%s: %U is printed as it is, in %q", what, character, got)
		}
	}
}

func wantControlFree(t *testing.T, what, got string) {
	t.Helper()
	for _, character := range got {
		if unicode.IsControl(character) && character != '\n' {
			t.Errorf("%s: %U is printed as it is, in %q", what, character, got)
		}
	}
}
