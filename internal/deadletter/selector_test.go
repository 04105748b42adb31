package deadletter

import (
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// letter is a message that was rejected an hour before at.
func letter() *amqp.Delivery {
	return &amqp.Delivery{
		MessageId: "m1", ContentType: "application/json", Priority: 4,
		Headers: amqp.Table{
			"x-death": []any{deathIn("orders", "rejected", "shop", "order.placed")}, "tenant": "acme", "attempt": int32(3),
			"nested": amqp.Table{"deep": []any{int16(1), "two"}}, "price": amqp.Decimal{Scale: 2, Value: 1250}, "x-warren-redrive-count": int64(1),
		},
		Body: []byte(`{"order": {"country": "DE", "total": 12.5, "id": 9007199254740993}, "items": [1, 2]}`),
	}
}

// costly takes 9⁵ comparisons.
const costly = `[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, ` +
	`[1,2,3,4,5,6,7,8,9].all(d, [1,2,3,4,5,6,7,8,9].all(e, a + b + c + d + e + size > 0)))))`

func TestSelect(t *testing.T) {
	t.Parallel()
	header := func(name string, operator Operator, values ...string) Selection {
		return Selection{Headers: []HeaderRequirement{{name, operator, values}}}
	}
	where := func(expression string) Selection { return Selection{Where: expression} }
	for name, test := range map[string]struct {
		selection Selection
		want      SkipReason
	}{
		"everything":                              {Selection{}, ""},
		"its reason":                              {Selection{Reasons: []Reason{Expired, Rejected}}, ""},
		"another reason":                          {Selection{Reasons: []Reason{Parked}}, NotSelected},
		"its id":                                  {Selection{IDs: []string{Fingerprint(letter())}}, ""},
		"another id":                              {Selection{IDs: []string{"aaaaaaaaaaaaaaaa"}}, NotSelected},
		"died after":                              {Selection{DiedAfter: died.Add(-time.Second)}, ""},
		"died at the very time":                   {Selection{DiedAfter: died}, NotSelected},
		"died before":                             {Selection{DiedBefore: died.Add(time.Second)}, ""},
		"died not before":                         {Selection{DiedBefore: died}, NotSelected},
		"a header in a list":                      {header("tenant", In, "other", "acme"), ""},
		"a header in another list":                {header("tenant", In, "other"), NotSelected},
		"a header not in a list":                  {header("tenant", NotIn, "other"), ""},
		"a missing header is in no list":          {header("missing", In, ""), NotSelected},
		"a missing header is not in a list":       {header("missing", NotIn, "acme"), ""},
		"a number as text":                        {header("attempt", In, "3"), ""},
		"a header exists":                         {header("nested", Exists), ""},
		"a header does not exist":                 {header("missing", DoesNotExist), ""},
		"a header should not exist":               {header("nested", DoesNotExist), NotSelected},
		"all has to hold":                         {Selection{Reasons: []Reason{Rejected}, Where: "false"}, NotSelected},
		"where: a header":                         {where(`headers.tenant == "acme"`), ""},
		"where: a number":                         {where(`headers.attempt > 2`), ""},
		"where: nested":                           {where(`headers.nested.deep[1] == "two" && headers.nested.deep[0] == 1`), ""},
		"where: a decimal":                        {where(`headers.price == 12.5`), ""},
		"where: a list of the broker":             {where(`headers["x-death"].exists(d, d.queue == "orders")`), ""},
		"where: a property":                       {where(`properties.messageId.startsWith("m") && properties.priority == 4`), ""},
		"where: a property that is not there":     {where(`has(properties.correlationId)`), NotSelected},
		"where: the reason":                       {where(`reason == "Rejected"`), ""},
		"where: the origin":                       {where(`origin.exchange == "shop" && origin.routingKey.matches("^order\\.")`), ""},
		"where: the age":                          {where(`age > duration("21h") && age < duration("23h")`), ""},
		"where: the size":                         {where(`size < 1000`), ""},
		"where: redrives":                         {where(`redrives == 1`), ""},
		"where: the body":                         {where(`body.order.country == "DE" && size < 65536`), ""},
		"where: a large number in the body":       {where(`body.order.id == 9007199254740993`), ""},
		"where: a fraction in the body":           {where(`body.order.total > 12`), ""},
		"where: a list in the body":               {where(`body.items.all(i, i < 3)`), ""},
		"where: a list of fields":                 {where(`[headers.tenant, body.order.country].exists(x, x == "DE")`), ""},
		"where: a list of lists":                  {where(`[["Rejected", "x"], ["y"]].exists(r, reason in r)`), ""},
		"where: a map of values":                  {where(`{"a": redrives + 1, "b": int(body.order.id)}.a == 2`), ""},
		"where: fields of a list":                 {where(`headers["x-death"].map(d, d.queue) == ["orders"]`), ""},
		"where: some of a list":                   {where(`body.items.filter(i, i > 1).map(i, i > 1 ? i : 0).size() == 1`), ""},
		"where: a text made of two":               {where(`headers.tenant + headers.tenant == "acmeacme"`), ""},
		"where: false":                            {where(`headers.tenant == "other"`), NotSelected},
		"where: a header that is not there":       {where(`headers.missing == "x"`), NotEvaluated},
		"where: a header of another type":         {where(`headers.tenant > 3`), NotEvaluated},
		"where: no truth value":                   {where(`headers.tenant`), NotEvaluated},
		"where: more than an expression may cost": {where(costly), NotEvaluated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			selector, err := Compile(test.selection)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "skipped", test.want, selector.skips(orders.Read(letter()), at))
		})
	}
}

func TestSelectByWhatAMessageDoesNotTell(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		selection Selection
		message   amqp.Delivery
		want      SkipReason
	}{
		"undated":                   {Selection{DiedAfter: died}, amqp.Delivery{}, Undated},
		"undated, asked for age":    {Selection{Where: `age > duration("1s")`}, amqp.Delivery{}, NotEvaluated},
		"a body that is no JSON":    {Selection{Where: `body.a == 1`}, amqp.Delivery{Body: []byte("a=1")}, NotEvaluated},
		"a body that goes on":       {Selection{Where: `body.a == 1`}, amqp.Delivery{Body: []byte(`{"a":1} and more`)}, NotEvaluated},
		"a body of too many values": {Selection{Where: `body.a == 1`}, amqp.Delivery{Body: []byte(`{"a":1,"b":[` + strings.Repeat("0,", bodyValues) + `0]}`)}, NotEvaluated},
		"a body of a long text":     {Selection{Where: `body.a == 1`}, amqp.Delivery{Body: []byte(`{"a":1,"b":"` + strings.Repeat(`,\"`, bodyValues) + `"}`)}, ""},
		"a body nobody asked for":   {Selection{Where: `size == 3`}, amqp.Delivery{Body: []byte("a=1")}, ""},
		"no header asked with has":  {Selection{Where: `!has(headers.tenant)`}, amqp.Delivery{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			selector, err := Compile(test.selection)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "skipped", test.want, selector.skips(orders.Read(&test.message), at))
		})
	}
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		selection Selection
		want      string
	}{
		"an id":                                {Selection{IDs: []string{"m1"}}, `ids: "m1" is no id of a dead letter`},
		"an expression that does not parse":    {Selection{Where: `headers.`}, "where: ERROR: <input>:1:9: Syntax error"},
		"an expression of unknown words":       {Selection{Where: `payload.size > 3`}, "where: ERROR: <input>:1:1: undeclared reference to 'payload'"},
		"an expression that is no truth value": {Selection{Where: `size`}, "where: is of type int and must be true or false"},
		"an expression that makes texts longer": {
			Selection{Where: `string(body).replace("", "aaaaaaaaaaaaaaaa") == ""`}, "where: calls replace, which is not allowed",
		},
		"an expression that does so within another": {
			Selection{Where: `[1, 2].exists(i, headers.h.split("").size() == i)`}, "where: calls split, which is not allowed",
		},
		"an expression that looks at each place of a text": {
			Selection{Where: `headers.a.indexOf(headers.b) > 0`}, "where: calls indexOf, which is not allowed",
		},
		"an expression whose pattern comes from the message": {
			Selection{Where: `matches(headers.a, headers.b)`}, "where: calls matches with a pattern that is not a plain text",
		},
		"an expression that makes a message of Protocol Buffers": {
			Selection{Where: `google.protobuf.ListValue{}.size() == 0`}, "where: makes a google.protobuf.ListValue, which is not allowed",
		},
		"an expression that doubles lists":        {Selection{Where: `[[1]].map(x, [x, x]).exists(x, x == x)`}, "where: puts a list, a map, or"},
		"an expression that adds lists":           {Selection{Where: `[[1]].map(x, x + x).exists(x, size(x) > 2)`}, "where: puts a list, a map, or"},
		"an expression that doubles maps":         {Selection{Where: `[1].exists(x, [{"a": {"b": x}}].exists(y, y == y))`}, "where: puts a list, a map, or"},
		"an expression that doubles a text":       {Selection{Where: `[headers.a].map(x, x + x).exists(x, x == "")`}, "where: puts a list, a map, or"},
		"an expression that doubles either way":   {Selection{Where: `[true ? headers.a : [headers.a]].exists(x, x == x)`}, "where: puts a list, a map, or"},
		"an expression that doubles a kept value": {Selection{Where: `[dyn([1])].exists(x, x == x)`}, "where: puts a list, a map, or"},
		"an expression that is too long":          {Selection{Where: strings.Repeat("(", 2049)}, "where: is 2049 bytes long, at most 2048 are allowed"},
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

// A time zone costs the read of a file, so its name must not come from a message, and few are read for each message.
func TestTimeZones(t *testing.T) {
	t.Parallel()
	const at12 = `timestamp("2026-01-31T11:00:00Z").getHours("Europe/Berlin") == 12`
	for where, want := range map[string]SkipReason{
		at12: "",
		`timestamp("2026-01-31T11:00:00Z").getHours() == 11`: "",
		`[1, 2, 3].all(x, ` + at12 + `)`:                     "",
		`body.all(x, ` + at12 + `)`:                          NotEvaluated, // too costly
	} {
		selector, err := Compile(Selection{Where: where})
		if err != nil {
			t.Fatal(err)
		}
		equal(t, where, want, selector.skips(Letter{Delivery: &amqp.Delivery{Body: []byte("[" + strings.Repeat("1,", 999) + "1]")}}, time.Now()))
	}
	for _, function := range []string{"getHours", "getFullYear", "getDate", "getMilliseconds"} {
		_, err := Compile(Selection{Where: `properties.timestamp.` + function + `(body.zone) == 1`})
		if err == nil || !strings.Contains(err.Error(), "where: calls "+function+" with a time zone that is not a plain text") {
			t.Errorf("%s: error %v", function, err)
		}
	}
}

// An expression tells why it failed, by names of fields and without values of a message.
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
		`age > duration("1s")`:              "the message does not tell when it died",
		`1 / (size - size) == 1`:            "division by zero",
		`body.items[size] == 1`:             "an operation failed, such as the conversion of a value",
		`body.password == "` + secret + `"`: "",
		costly:                              "operation cancelled: actual cost limit exceeded",
	} {
		selector, err := Compile(Selection{Where: expression})
		if err != nil {
			t.Fatalf("%s: %v", expression, err)
		}
		selector.skips(Source{}.Read(&amqp.Delivery{Body: []byte(`{"password": "` + secret + `", "items": []}`)}), at)
		if want != "" { // the first error is the one that counts
			selector.skips(Source{}.Read(&amqp.Delivery{Body: []byte("no JSON")}), at)
		}
		if got := selector.EvaluationError(); got != want {
			t.Errorf("%s: %q, want %q", expression, got, want)
		}
	}
}
