package deadletterapi

import (
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		given string
		want  query
	}{
		"nothing": {"", query{limit: 20, bodyLimit: 4096, depth: 10_000}},
		"all": {
			"position=40&limit=1000&bodyLimit=0&depth=100000&groupBy=tenant&timeout=30s",
			query{position: 40, limit: 1000, bodyLimit: 0, depth: 100_000, groupBy: "tenant"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			values, err := url.ParseQuery(test.given)
			if err != nil {
				t.Fatal(err)
			}
			got, err := parse(values, append(messageParameters, summaryParameters...))
			topologytest.Equal(t, "error", nil, err)
			if difference := cmp.Diff(test.want, got, cmp.AllowUnexported(query{}), cmpopts.IgnoreFields(query{}, "selector")); difference != "" {
				t.Error(difference)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"limt=5":          "limt: unknown parameter. The parameters are position, limit, bodyLimit, distinct, id, reason, header, diedAfter, diedBefore, expression, unknownOrigin",
		"limit=0":         `limit: "0" must be a number from 1 to 1000`,
		"limit=1001":      `limit: "1001" must be a number from 1 to 1000`,
		"position=-1":     `position: "-1" must be a number from 0 to 100000`,
		"bodyLimit=many":  `bodyLimit: "many" must be a number from 0 to 1048576`,
		"reason=Lost":     `reason: "Lost" must be one of [Rejected Expired MaxLength DeliveryLimit Parked]`,
		"id=7":            `ids: "7" is not the ID of a dead letter, which has 16 characters of a-z and 2-7`,
		"unknownOrigin=7": `unknownOrigin: "7" must be true or false`,
		"header=!":        `header: "!" must be NAME, !NAME, NAME=VALUE or NAME!=VALUE`,
		"diedAfter=2h":    `diedAfter: "2h" must be a time such as 2026-01-31T08:00:00Z`,
		"diedBefore=x":    `diedBefore: "x" must be a time such as 2026-01-31T08:00:00Z`,
		"expression=1":    "expression: is of type int and must be true or false",
	} {
		t.Run(given, func(t *testing.T) {
			t.Parallel()
			values, err := url.ParseQuery(given)
			if err != nil {
				t.Fatal(err)
			}
			_, err = parse(values, messageParameters)
			if err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

// The parameters have the same meaning as the fields of a Redrive's spec.selector.
func TestParseSelects(t *testing.T) {
	t.Parallel()
	values := url.Values{
		"id": {"aaaaaaaaaaaaaaaa"}, "reason": {"Parked"}, "header": {"kind=a", "kind=b", "!tenant"}, "expression": {"size > 5"},
		"diedAfter": {"2026-01-31T10:00:00Z"}, "diedBefore": {"2026-01-31T11:30:00Z"}, "unknownOrigin": {"true"},
	}
	q, err := parse(values, messageParameters)
	topologytest.Equal(t, "error", nil, err)
	topologytest.Equal(t, "selector", v1alpha1.DeadLetterSelector{
		IDs: []string{"aaaaaaaaaaaaaaaa"}, Reasons: []v1alpha1.DeadLetterReason{"Parked"}, Expression: "size > 5", UnknownOrigin: true,
		Headers: []v1alpha1.HeaderRequirement{
			{Name: "kind", Operator: "In", Values: []string{"a", "b"}}, {Name: "tenant", Operator: "DoesNotExist"},
		},
		DiedAfter:  new(metav1.Date(2026, 1, 31, 10, 0, 0, 0, time.UTC)),
		DiedBefore: new(metav1.Date(2026, 1, 31, 11, 30, 0, 0, time.UTC)),
	}, q.selector.DeadLetterSelector)
}

// A page reads no more messages than necessary.
func TestMaxMessages(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		expression string
		paged      bool
		shared     bool
		want       int
	}{
		"a page":                      {paged: true, want: 50},
		"a page of selected messages": {paged: true, expression: "size > 1", want: 1000},
		"a page of a shared queue":    {paged: true, shared: true, want: 1000},
		"a summary":                   {want: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, err := parse(url.Values{"position": {"30"}, "limit": {"20"}, "expression": {test.expression}}, messageParameters)
			topologytest.Equal(t, "error", nil, err)
			q.paged, q.depth = test.paged, 1000
			topologytest.Equal(t, "limit", test.want, q.maxMessages(test.shared))
		})
	}
}
