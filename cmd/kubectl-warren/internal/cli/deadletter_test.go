package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/deadlettertext"
)

// now is the time of the output.
var now = time.Date(2026, 11, 24, 4, 0, 0, 0, time.UTC)

// answered reads a response of the dead-letter API from testdata.
func answered(t *testing.T, name string, into any) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return content
}

// The output for responses of the dead-letter API.
func TestLettersPrinted(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"dead-letters", "dead-letters-hostile", "dead-letters-none"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := v1alpha1.DeadLetterList{}
			answered(t, name, &list)
			decoded, err := deadlettertext.Decode(list)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name, printed(t, func(out *bytes.Buffer) error { return printDeadLetters(out, list, decoded, now) }))
		})
	}
}

func TestSummariesPrinted(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"summary", "summary-plain", "summary-hostile", "summary-none"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queue := v1alpha1.DeadLetterQueue{}
			answered(t, name, &queue)
			text := printed(t, func(out *bytes.Buffer) error { return printSummary(out, queue, now, false) })
			golden(t, name, text+"--- stderr\n"+nextOf(queue, "shop"))
		})
	}
}

func TestDeadLetterQueuesPrinted(t *testing.T) {
	t.Parallel()
	list := v1alpha1.DeadLetterQueueList{}
	answered(t, "queues", &list)
	for name, all := range map[string]bool{"queues": false, "queues-all": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			golden(t, name, printed(t, func(out *bytes.Buffer) error {
				return printDeadLetterQueues(out, list.Items, now, tableLayout{namespaces: all, head: true})
			}))
		})
	}
}

// -o json and yaml print the whole response, including fields that this version does not know.
func TestAnswersPrinted(t *testing.T) {
	t.Parallel()
	const answer = `{"kind":"DeadLetterList","newField":9007199254740993,"items":[{"body":"<&>` + "\u009b" + `"}]}` + "\n"
	for format, want := range map[string]string{
		formatJSON: "{\n  \"kind\": \"DeadLetterList\",\n  \"newField\": 9007199254740993,\n  \"items\": [\n    {\n      \"body\": \"<&>\\u009b\"\n    }\n  ]\n}\n",
		formatYAML: "items:\n- body: \"<&>\\x9B\"\nkind: DeadLetterList\nnewField: 9007199254740993\n",
	} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			got := printed(t, func(out *bytes.Buffer) error {
				_, err := (&output{format: format}).printedAnswer(out, []byte(answer))
				return err
			})
			if difference := cmp.Diff(want, got); difference != "" {
				t.Errorf("-want +got:\n%s", difference)
			}
		})
	}
}

// A YAML parser takes a plain << as the command to merge a map.
func TestAHeaderNamedLikeAMergeIsPrinted(t *testing.T) {
	t.Parallel()
	const answer = `{"headers":{"\u003c\u003c":"a","list":["\u003c\u003c",{"\u003c\u003c":{"b":1}}]}}`
	text, err := yamlOf([]byte(answer))
	if err != nil {
		t.Fatal(err)
	}
	if read, err := yaml.YAMLToJSON(text); err != nil || string(read) != answer {
		t.Errorf("got %s, %v, from:\n%s", read, err, text)
	}
}

// If a header's value is not a plain word, the output suggests no command that contains it.
func TestGroupFlags(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		groupBy string
		group   v1alpha1.Group
		want    string
	}{
		"a reason":             {"", v1alpha1.Group{Reason: "Parked"}, `--died-reason Parked --expression 'origin.queue == ""'`},
		"a queue":              {"", v1alpha1.Group{Reason: "Rejected", Queue: "orders"}, `--died-reason Rejected --expression 'origin.queue == "orders"'`},
		"a value":              {"kind", v1alpha1.Group{Reason: "Parked", Value: new("a.b/c-1")}, `--died-reason Parked --expression 'origin.queue == ""' --header kind=a.b/c-1`},
		"no header":            {"kind", v1alpha1.Group{Reason: "Parked"}, `--died-reason Parked --expression 'origin.queue == ""' --header '!kind'`},
		"a command as value":   {"kind", v1alpha1.Group{Reason: "Parked", Value: new("$(reboot)")}, ""},
		"a list as value":      {"kind", v1alpha1.Group{Reason: "Parked", Value: new("a,b")}, ""},
		"an inexact value":     {"kind", v1alpha1.Group{Reason: "Parked", Value: new("a"), ValueInexact: true}, ""},
		"an empty value":       {"kind", v1alpha1.Group{Reason: "Parked", Value: new("")}, ""},
		"a command as queue":   {"", v1alpha1.Group{Reason: "Parked", Queue: "'; reboot"}, ""},
		"a command as header":  {"`reboot`", v1alpha1.Group{Reason: "Parked"}, ""},
		"a comparison in name": {"a=b", v1alpha1.Group{Reason: "Parked", Value: new("c")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flags, isPlain := groupFlags(test.groupBy, test.group)
			if isPlain != (test.want != "") || isPlain && flags != test.want {
				t.Errorf("flags %q, %t, want %q", flags, isPlain, test.want)
			}
		})
	}
}

// Deeply nested JSON is not indented, because it would become mostly spaces.
func TestDeepBody(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 2000) + strings.Repeat("]", 2000)
	if difference := cmp.Diff([]string{deep}, deadlettertext.BodyLines(v1alpha1.DeadLetter{Body: deep, BodyEncoding: v1alpha1.UTF8})); difference != "" {
		t.Errorf("-want +got:\n%s", difference)
	}
}

// Rows of --watch are aligned with the head that was printed first.
func TestRowsThatFollowStandBelowTheHead(t *testing.T) {
	t.Parallel()
	queues := []v1alpha1.DeadLetterQueue{{ObjectMeta: metav1.ObjectMeta{Name: "orders"}, Queue: "orders.dlq", Messages: new(int64(7))}}
	out := &bytes.Buffer{}
	for _, head := range []bool{true, false} {
		if err := printDeadLetterQueues(out, queues, now, tableLayout{head: head}); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(out.String(), "\n")
	if diff := cmp.Diff(lines[1], lines[2]); diff != "" {
		t.Errorf("row that follows (-want +got):\n%s", diff)
	}
}
