package parameters

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// Both sides of the API understand the same parameters.
func TestSelectorOfParameters(t *testing.T) {
	t.Parallel()
	for name, given := range map[string]*v1alpha1.DeadLetterSelector{
		"nothing": {},
		"all fields": {
			IDs: []string{"aaaabbbbccccdddd"}, Reasons: []v1alpha1.DeadLetterReason{"Rejected", "Parked"}, Expression: "size > 1",
			Headers: []v1alpha1.HeaderRequirement{
				{Name: "tenant", Operator: "In", Values: []string{"acme", "b=c"}},
				{Name: "tenant", Operator: "NotIn", Values: []string{""}},
				{Name: "kind", Operator: "Exists"},
				{Name: "other", Operator: "DoesNotExist"},
			},
			DiedAfter:     new(metav1.Date(2026, 1, 31, 10, 0, 0, 0, time.UTC)),
			DiedBefore:    new(metav1.Date(2026, 1, 31, 11, 30, 0, 0, time.UTC)),
			UnknownOrigin: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Selector(Of(given))
			topologytest.Equal(t, "error", nil, err)
			topologytest.Equal(t, "selector", *given, got)
		})
	}
	topologytest.Equal(t, "parameters of no selector", 0, len(Of(nil)))
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		given []string
		want  []v1alpha1.HeaderRequirement
	}{
		"nothing":          {nil, nil},
		"one value":        {[]string{"kind=a, b"}, []v1alpha1.HeaderRequirement{{Name: "kind", Operator: "In", Values: []string{"a, b"}}}},
		"several values":   {[]string{"kind=a", "kind=b=c"}, []v1alpha1.HeaderRequirement{{Name: "kind", Operator: "In", Values: []string{"a", "b=c"}}}},
		"an empty value":   {[]string{"kind="}, []v1alpha1.HeaderRequirement{{Name: "kind", Operator: "In", Values: []string{""}}}},
		"other values":     {[]string{"kind!=a", "kind=b"}, []v1alpha1.HeaderRequirement{{Name: "kind", Operator: "NotIn", Values: []string{"a"}}, {Name: "kind", Operator: "In", Values: []string{"b"}}}},
		"with a header":    {[]string{"kind"}, []v1alpha1.HeaderRequirement{{Name: "kind", Operator: "Exists"}}},
		"without a header": {[]string{"!kind"}, []v1alpha1.HeaderRequirement{{Name: "kind", Operator: "DoesNotExist"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Headers(test.given)
			topologytest.Equal(t, "error", nil, err)
			topologytest.Equal(t, "requirements", test.want, got)
		})
	}
	for _, wrong := range []string{"", "!", "=a", "!=a"} {
		if _, err := Headers([]string{wrong}); err == nil {
			t.Errorf("%q was taken", wrong)
		}
	}
}
