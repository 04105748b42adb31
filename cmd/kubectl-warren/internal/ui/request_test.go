package ui

import (
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/jobs"
)

// asked returns the object that a form creates.
func asked(t *testing.T, of jobs.Kind, form string) (client.Object, error) {
	t.Helper()
	values, err := url.ParseQuery(form)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/", nil)
	r.SetPathValue("kind", string(of))
	r.SetPathValue("namespace", "shop")
	r.SetPathValue("queue", "orders")
	q, err := requestOf(r, values)
	if err != nil {
		return nil, err
	}
	return q.object("alice")
}

func TestRedrivesOfForms(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		form string
		want v1alpha1.RedriveSpec
	}{
		"all, as fast as usual": {"to=Main&rate=100&limit=&why=", v1alpha1.RedriveSpec{Rate: new(intstr.FromInt32(100))}},
		"a group": {
			"reason=Rejected&header=kind&operator=In&value=a%2Cb&expression=size+%3C+9&to=retry/5m&rate=unlimited&limit=5&why=INC-1",
			v1alpha1.RedriveSpec{
				Selector: &v1alpha1.DeadLetterSelector{
					Reasons: []v1alpha1.DeadLetterReason{"Rejected"}, Expression: "size < 9",
					Headers: []v1alpha1.HeaderRequirement{{Name: "kind", Operator: "In", Values: []string{"a,b"}}},
				},
				Destination: &v1alpha1.RedriveDestination{Type: v1alpha1.RedriveToRetry, Delay: "5m"},
				Rate:        new(intstr.FromString("Unlimited")), MaxMessages: new(int32(5)), Reason: "INC-1",
			},
		},
		"those without a header": {
			"header=kind&operator=DoesNotExist&value=left+over", v1alpha1.RedriveSpec{Selector: &v1alpha1.DeadLetterSelector{
				Headers: []v1alpha1.HeaderRequirement{{Name: "kind", Operator: "DoesNotExist"}},
			}},
		},
		"an operator without a header": {"header=&operator=In&value=x", v1alpha1.RedriveSpec{}},
		"chosen messages":              {"id=a&id=b", v1alpha1.RedriveSpec{Selector: &v1alpha1.DeadLetterSelector{IDs: []string{"a", "b"}}}},
		"to another ConsumerQueue": {"to=queue/quarantine", v1alpha1.RedriveSpec{Destination: &v1alpha1.RedriveDestination{
			Type: v1alpha1.RedriveToConsumerQueue, ConsumerQueueRef: &v1alpha1.LocalObjectReference{Name: "quarantine"},
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := asked(t, jobs.Redrive, test.form)
			if err != nil {
				t.Fatal(err)
			}
			test.want.ConsumerQueueRef.Name, test.want.RequestedBy = "orders", "alice"
			test.want.TTLSecondsAfterFinished = new(jobs.KeepSeconds)
			if difference := cmp.Diff(test.want, got.(*v1alpha1.Redrive).Spec); difference != "" {
				t.Errorf("spec (-want +got):\n%s", difference)
			}
		})
	}
}

func TestFormsThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind jobs.Kind
		form string
		want string
	}{
		"a limit of zero":  {jobs.Redrive, "limit=0", `At most: "0" must be a number from 1, or empty for all.`},
		"a rate in words":  {jobs.Redrive, "rate=fast", `Messages per second: "fast" must be a number from 1, or Unlimited.`},
		"an unknown thing": {"edit", "", "There is no such page."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := asked(t, test.kind, test.form); err == nil || err.Error() != test.want {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
}

func TestMistyped(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind                 jobs.Kind
		counted, typed, want string
	}{
		"the number":              {jobs.Purge, "1204", "1204", ""},
		"the number as shown":     {jobs.Purge, "1204", " 1,204 ", ""},
		"another number":          {jobs.Purge, "1204", "1205", `"1205"`},
		"nothing":                 {jobs.Purge, "1204", "", `""`},
		"to move takes no number": {jobs.Redrive, "1204", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			given := url.Values{"counted": {test.counted}, "typed": {test.typed}}
			if got := mistyped(request{Kind: test.kind}, given); got != test.want {
				t.Errorf("mistyped %s, want %s", got, test.want)
			}
		})
	}
}

// A selection survives the round trip through a link.
func TestSelectionsOfLinks(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]selection{
		"all":              {},
		"a group":          {Reasons: []string{"Rejected"}, Header: "x-kind", Operator: "In", Value: `a&b="c"`, Expression: ofQueue("orders \"new\" 1/2")},
		"without a header": {Reasons: []string{"Parked"}, Header: "x-kind", Operator: "DoesNotExist"},
		"chosen":           {IDs: []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			values, err := url.ParseQuery(want.values().Encode())
			if err != nil {
				t.Fatal(err)
			}
			if difference := cmp.Diff(want, selectionOf(values)); difference != "" {
				t.Errorf("selection (-want +got):\n%s", difference)
			}
		})
	}
}

func TestExpressionText(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		ofQueue(`orders "new"`):                `died in queue orders "new"`,
		ofQueue(""):                            "died in an unknown queue",
		`origin.queue == "orders" && size > 5`: `origin.queue == "orders" && size > 5`,
		`body.order.country == "DE"`:           `body.order.country == "DE"`,
	} {
		if got := expressionText(expression); got != want {
			t.Errorf("%s: %q, want %q", expression, got, want)
		}
	}
}
