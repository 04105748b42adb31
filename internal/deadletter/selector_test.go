package deadletter

import (
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// deadLetter returns a message that was rejected at the time died.
func deadLetter() *amqp.Delivery {
	return &amqp.Delivery{
		MessageId: "m1", ContentType: "application/json", Priority: 4,
		Headers: amqp.Table{
			"x-death": []any{deathIn("orders", "rejected", "shop", "order.placed")}, "tenant": "acme", "attempt": int32(3),
			"nested": amqp.Table{"deep": []any{int16(1), "two"}}, "price": amqp.Decimal{Scale: 2, Value: 1250}, "x-warren-redrive-count": int64(1),
		},
		Body: []byte(`{"order": {"country": "DE", "total": 12.5, "id": 9007199254740993}, "items": [1, 2]}`),
	}
}

// selection is short for the type.
type selection = v1alpha1.DeadLetterSelector

// timeAt returns a time that is later than that of the death.
func timeAt(later time.Duration) *metav1.Time { return new(metav1.NewTime(died.Add(later))) }

// costly takes 9⁵ comparisons.
const costly = `[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, ` +
	`[1,2,3,4,5,6,7,8,9].all(d, [1,2,3,4,5,6,7,8,9].all(e, a + b + c + d + e + size > 0)))))`

func TestSelect(t *testing.T) {
	t.Parallel()
	header := func(name, operator string, values ...string) selection {
		return selection{Headers: []v1alpha1.HeaderRequirement{{Name: name, Operator: operator, Values: values}}}
	}
	expression := func(source string) selection { return selection{Expression: source} }
	for name, test := range map[string]struct {
		selection selection
		want      SkipReason
	}{
		"everything":                                   {selection{}, ""},
		"its reason":                                   {selection{Reasons: []v1alpha1.DeadLetterReason{Expired, Rejected}}, ""},
		"another reason":                               {selection{Reasons: []v1alpha1.DeadLetterReason{Parked}}, NotSelected},
		"its id":                                       {selection{IDs: []string{Fingerprint(deadLetter())}}, ""},
		"another id":                                   {selection{IDs: []string{"aaaaaaaaaaaaaaaa"}}, NotSelected},
		"died after":                                   {selection{DiedAfter: timeAt(-time.Second)}, ""},
		"died at the very time":                        {selection{DiedAfter: timeAt(0)}, NotSelected},
		"died before":                                  {selection{DiedBefore: timeAt(time.Second)}, ""},
		"died not before":                              {selection{DiedBefore: timeAt(0)}, NotSelected},
		"a header in a list":                           {header("tenant", in, "other", "acme"), ""},
		"a header in another list":                     {header("tenant", in, "other"), NotSelected},
		"a header not in a list":                       {header("tenant", "NotIn", "other"), ""},
		"a missing header is in no list":               {header("missing", in, ""), NotSelected},
		"a missing header is not in a list":            {header("missing", "NotIn", "acme"), ""},
		"a number as text":                             {header("attempt", in, "3"), ""},
		"a header exists":                              {header("nested", exists), ""},
		"a header does not exist":                      {header("missing", doesNotExist), ""},
		"a header should not exist":                    {header("nested", doesNotExist), NotSelected},
		"all has to hold":                              {selection{Reasons: []v1alpha1.DeadLetterReason{Rejected}, Expression: "false"}, NotSelected},
		"expression: a header":                         {expression(`headers.tenant == "acme"`), ""},
		"expression: a number":                         {expression(`headers.attempt > 2`), ""},
		"expression: nested":                           {expression(`headers.nested.deep[1] == "two" && headers.nested.deep[0] == 1`), ""},
		"expression: a decimal":                        {expression(`headers.price == 12.5`), ""},
		"expression: a list of the broker":             {expression(`headers["x-death"].exists(d, d.queue == "orders")`), ""},
		"expression: a property":                       {expression(`properties.messageId.startsWith("m") && properties.priority == 4`), ""},
		"expression: a property that is not there":     {expression(`has(properties.correlationId)`), NotSelected},
		"expression: the reason":                       {expression(`reason == "Rejected"`), ""},
		"expression: the origin":                       {expression(`origin.exchange == "shop" && origin.routingKey.matches("^order\\.")`), ""},
		"expression: the age":                          {expression(`age > duration("21h") && age < duration("23h")`), ""},
		"expression: the size":                         {expression(`size < 1000`), ""},
		"expression: redrives":                         {expression(`redrives == 1`), ""},
		"expression: the body":                         {expression(`body.order.country == "DE" && size < 65536`), ""},
		"expression: a large number in the body":       {expression(`body.order.id == 9007199254740993`), ""},
		"expression: a fraction in the body":           {expression(`body.order.total > 12`), ""},
		"expression: a list in the body":               {expression(`body.items.all(i, i < 3)`), ""},
		"expression: a list of fields":                 {expression(`[headers.tenant, body.order.country].exists(x, x == "DE")`), ""},
		"expression: a list of lists":                  {expression(`[["Rejected", "x"], ["y"]].exists(r, reason in r)`), ""},
		"expression: a map of values":                  {expression(`{"a": redrives + 1, "b": int(body.order.id)}.a == 2`), ""},
		"expression: fields of a list":                 {expression(`headers["x-death"].map(d, d.queue) == ["orders"]`), ""},
		"expression: some of a list":                   {expression(`body.items.filter(i, i > 1).map(i, i > 1 ? i : 0).size() == 1`), ""},
		"expression: a text made of two":               {expression(`headers.tenant + headers.tenant == "acmeacme"`), ""},
		"expression: false":                            {expression(`headers.tenant == "other"`), NotSelected},
		"expression: a header that is not there":       {expression(`headers.missing == "x"`), NotEvaluated},
		"expression: a header of another type":         {expression(`headers.tenant > 3`), NotEvaluated},
		"expression: no truth value":                   {expression(`headers.tenant`), NotEvaluated},
		"expression: more than an expression may cost": {expression(costly), NotEvaluated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			selector, err := Compile(test.selection)
			if err != nil {
				t.Fatal(err)
			}
			topologytest.Equal(t, "skipped", test.want, selector.skips(orders.Read(deadLetter()), at))
		})
	}
}

func TestSelectByMissingValues(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		selection selection
		message   amqp.Delivery
		want      SkipReason
	}{
		"undated":                    {selection{DiedAfter: timeAt(0)}, amqp.Delivery{}, Undated},
		"undated, asked for age":     {selection{Expression: `age > duration("1s")`}, amqp.Delivery{}, NotEvaluated},
		"a body that is no JSON":     {selection{Expression: `body.a == 1`}, amqp.Delivery{Body: []byte("a=1")}, NotEvaluated},
		"a body that goes on":        {selection{Expression: `body.a == 1`}, amqp.Delivery{Body: []byte(`{"a":1} and more`)}, NotEvaluated},
		"a body of too many values":  {selection{Expression: `body.a == 1`}, amqp.Delivery{Body: []byte(`{"a":1,"b":[` + strings.Repeat("0,", maxBodyValues) + `0]}`)}, NotEvaluated},
		"a body of a long name":      {selection{Expression: `body.a == 1`}, amqp.Delivery{Body: []byte(`{"a":1,"` + strings.Repeat("b", maxText+1) + `":0}`)}, NotEvaluated},
		"a long name in a map":       {selection{Expression: `body == {"a": 1}`}, amqp.Delivery{Body: []byte(`{"a":{"` + strings.Repeat("b", maxText+1) + `":0}}`)}, NotEvaluated},
		"a number beyond all others": {selection{Expression: `body == {"a": 1}`}, amqp.Delivery{Body: []byte(`{"a":1e400}`)}, NotSelected},
		"a number below all others":  {selection{Expression: `body.a < -1e300`}, amqp.Delivery{Body: []byte(`{"a":-1e400}`)}, ""},
		"a body of a long text":      {selection{Expression: `body.a == 1`}, amqp.Delivery{Body: []byte(`{"a":1,"b":"` + strings.Repeat(`,\"`, maxBodyValues) + `"}`)}, ""},
		"a body that is not needed":  {selection{Expression: `size == 3`}, amqp.Delivery{Body: []byte("a=1")}, ""},
		"no header asked with has":   {selection{Expression: `!has(headers.tenant)`}, amqp.Delivery{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			selector, err := Compile(test.selection)
			if err != nil {
				t.Fatal(err)
			}
			topologytest.Equal(t, "skipped", test.want, selector.skips(orders.Read(&test.message), at))
		})
	}
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		selection selection
		want      string
	}{
		"an id":                                {selection{IDs: []string{"m1"}}, `ids: "m1" is not the ID of a dead letter`},
		"an expression that does not parse":    {selection{Expression: `headers.`}, "expression: ERROR: <input>:1:9: Syntax error"},
		"an expression of unknown words":       {selection{Expression: `payload.size > 3`}, "expression: ERROR: <input>:1:1: undeclared reference to 'payload'"},
		"an expression that is no truth value": {selection{Expression: `size`}, "expression: is of type int and must be true or false"},
		"an expression that makes texts longer": {
			selection{Expression: `string(body).replace("", "aaaaaaaaaaaaaaaa") == ""`}, "expression: calls replace, which is not allowed",
		},
		"an expression that does so within another": {
			selection{Expression: `[1, 2].exists(i, headers.h.split("").size() == i)`}, "expression: calls split, which is not allowed",
		},
		"an expression that looks at each place of a text": {
			selection{Expression: `headers.a.indexOf(headers.b) > 0`}, "expression: calls indexOf, which is not allowed",
		},
		"an expression whose pattern comes from the message": {
			selection{Expression: `matches(headers.a, headers.b)`}, "expression: calls matches with a pattern that is not a literal",
		},
		"an expression with a pattern that is too large": {
			selection{Expression: `headers.a.matches("(?:` + strings.Repeat("a?", 900) + `){1000}b")`},
			"expression: calls matches with a pattern of 1801002 parts, at most 4096 are allowed. Use a* or a+ instead of",
		},
		"an expression with a pattern of several repetitions": {
			selection{Expression: `matches(headers.a, "` + strings.Repeat("(a{100}){10}", 5) + `")`},
			"expression: calls matches with a pattern of 5051 parts, at most 4096 are allowed. Use a* or a+ instead of",
		},
		"an expression that makes a message of Protocol Buffers": {
			selection{Expression: `google.protobuf.ListValue{}.size() == 0`}, "expression: creates a google.protobuf.ListValue, which is not allowed",
		},
		"an expression that doubles lists":        {selection{Expression: `[[1]].map(x, [x, x]).exists(x, x == x)`}, "expression: nests a list, a map, or"},
		"an expression that adds lists":           {selection{Expression: `[[1]].map(x, x + x).exists(x, size(x) > 2)`}, "expression: nests a list, a map, or"},
		"an expression that doubles maps":         {selection{Expression: `[1].exists(x, [{"a": {"b": x}}].exists(y, y == y))`}, "expression: nests a list, a map, or"},
		"an expression that doubles a text":       {selection{Expression: `[headers.a].map(x, x + x).exists(x, x == "")`}, "expression: nests a list, a map, or"},
		"an expression that doubles either way":   {selection{Expression: `[true ? headers.a : [headers.a]].exists(x, x == x)`}, "expression: nests a list, a map, or"},
		"an expression that doubles a kept value": {selection{Expression: `[dyn([1])].exists(x, x == x)`}, "expression: nests a list, a map, or"},
		"an expression that is too long":          {selection{Expression: strings.Repeat("(", 2049)}, "expression: is 2049 bytes long, at most 2048 are allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Compile(test.selection)
			if err == nil || !strings.HasPrefix(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v\nwant one line that begins with %s", err, test.want)
			}
		})
	}
}

// CEL reads a file for each time zone, so a message must not choose the zone, and the number of reads per message is limited.
func TestTimeZones(t *testing.T) {
	t.Parallel()
	const at12 = `timestamp("2026-01-31T11:00:00Z").getHours("Europe/Berlin") == 12`
	for where, want := range map[string]SkipReason{
		at12: "",
		`timestamp("2026-01-31T11:00:00Z").getHours() == 11`: "",
		`[1, 2, 3].all(x, ` + at12 + `)`:                     "",
		`body.all(x, ` + at12 + `)`:                          NotEvaluated, // too costly
	} {
		selector, err := Compile(selection{Expression: where})
		if err != nil {
			t.Fatal(err)
		}
		topologytest.Equal(t, where, want, selector.skips(Message{Delivery: &amqp.Delivery{Body: []byte("[" + strings.Repeat("1,", 999) + "1]")}}, time.Now()))
	}
	for _, function := range []string{"getHours", "getFullYear", "getDate", "getMilliseconds"} {
		_, err := Compile(selection{Expression: `properties.timestamp.` + function + `(body.zone) == 1`})
		if err == nil || !strings.Contains(err.Error(), "expression: calls "+function+" with a time zone that is not a literal") {
			t.Errorf("%s: error %v", function, err)
		}
	}
}

// The error of an expression names fields, and contains no values of a message.
func TestEvaluationError(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for expression, want := range map[string]string{
		`body.oder == 1`:                    "no such key: oder",
		`body[body.password] == 1`:          "no such key",
		`headers.missing == "x"`:            "no such key: missing",
		`body.password > 3`:                 "no such overload",
		`int(body.password) > 3`:            "an operation failed, such as the conversion of a value",
		`duration(body.password) > age`:     "an operation failed, such as the conversion of a value",
		`body.password`:                     "the result is of type string and must be true or false",
		`age > duration("1s")`:              "the message has no time of death",
		`1 / (size - size) == 1`:            "division by zero",
		`body.items[size] == 1`:             "an operation failed, such as the conversion of a value",
		`body.password == "` + secret + `"`: "",
		costly:                              "operation cancelled: actual cost limit exceeded",
	} {
		selector, err := Compile(selection{Expression: expression})
		if err != nil {
			t.Fatalf("%s: %v", expression, err)
		}
		selector.skips(Source{}.Read(&amqp.Delivery{Body: []byte(`{"password": "` + secret + `", "items": []}`)}), at)
		if want != "" { // the first error is reported
			selector.skips(Source{}.Read(&amqp.Delivery{Body: []byte("no JSON")}), at)
		}
		if got := selector.EvaluationError(); got != want {
			t.Errorf("%s: %q, want %q", expression, got, want)
		}
	}
}
