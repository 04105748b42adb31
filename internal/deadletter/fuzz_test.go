package deadletter

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/cel"
	amqp "github.com/rabbitmq/amqp091-go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/deadline"
)

// TestMessages and FuzzMessages draw the same messages: a few at random, and many where they reach new code.
func TestMessages(t *testing.T) {
	t.Parallel()
	rapid.Check(t, checkMessage)
}

func FuzzMessages(f *testing.F) { f.Fuzz(rapid.MakeFuzz(checkMessage)) }

// checkMessage shows that every message that a client can publish can be read, selected and copied.
func checkMessage(t *rapid.T) {
	message := anyMessage(t)
	checkFingerprint(t, message)
	deadLetter := orders.Read(message)
	checkCopies(t, deadLetter)

	source := Source{Main: "orders", Tiers: []string{"orders.retry.30s"}, Shared: rapid.Bool().Draw(t, "shared")}
	selection := anySelection(t, message)
	selector, err := Compile(selection)
	if err != nil {
		valid := !slices.ContainsFunc(selection.IDs, func(id string) bool { return !isFingerprint.MatchString(id) })
		if valid && selection.Expression == "" {
			t.Errorf("%+v does not compile: %v", selection, err)
		}
		return
	}
	rules := Rules{Source: source, Selector: selector, RedriveID: "0d7f", MaxRedrives: rapid.IntRange(-1, 3).Draw(t, "maxRedrives")}
	skipped := rules.Skips(source.Read(message), at)
	known := []SkipReason{"", NotSelected, Undated, NotEvaluated, MaxRedrives, CameBack, OtherOrigin, NoOrigin}
	if !slices.Contains(known, skipped) {
		t.Errorf("skipped for %q", skipped)
	}
	if selector.All() && slices.Contains([]SkipReason{NotSelected, Undated, NotEvaluated}, skipped) {
		t.Errorf("nothing is asked for, and the message is skipped for %q", skipped)
	}
	again := *message
	again.Headers = refilled(message.Headers).(amqp.Table)
	if other := rules.Skips(source.Read(&again), at); other != skipped {
		t.Errorf("skipped for %q, and for %q when the maps are filled in another order", skipped, other)
	}
}

// checkFingerprint shows that a fingerprint depends neither on the order in which a map was filled nor on deliveries, but on the body.
func checkFingerprint(t *rapid.T, message *amqp.Delivery) {
	id := Fingerprint(message)
	if !isFingerprint.MatchString(id) {
		t.Errorf("the fingerprint is %q", id)
	}
	if other := Fingerprint(delivered(message)); other != id {
		t.Errorf("the fingerprint is %q, and %q when the message is delivered again", id, other)
	}
	changed := delivered(message)
	changed.Body = append(slices.Clone(changed.Body), 'a')
	if Fingerprint(changed) == id {
		t.Error("another body has the same fingerprint")
	}
}

// checkCopies shows that a copy can be published, lacks what must not be copied, and keeps its origin in a further Redrive.
func checkCopies(t *rapid.T, deadLetter Message) {
	id := Fingerprint(deadLetter.Delivery)
	copied := redriveHeaders.Copy(deadLetter, at, 1)
	if Fingerprint(deadLetter.Delivery) != id {
		t.Error("the copy has changed the message")
	}
	if err := copied.Headers.Validate(); err != nil {
		t.Errorf("the copy cannot be published: %v", err)
	}
	again := orders.Read(&amqp.Delivery{Headers: copied.Headers, Body: copied.Body})
	if deadLetter.Redrives < math.MaxInt32 && again.Redrives != deadLetter.Redrives+1 {
		t.Errorf("moved %d times, and then %d times", deadLetter.Redrives, again.Redrives)
	}
	second := redriveHeaders.Copy(again, at, 2)
	for name, value := range copied.Headers {
		for _, gone := range []string{
			"x-death", "x-first-death-", "x-last-death-", "x-delivery-count", "x-acquired-count", "CC", "BCC", "x-defer-count", "x-copy-id",
			"x-retry-count", "x-failure-", headerDeliveryTime, headerDeferralToken,
		} {
			if name == gone || strings.HasSuffix(gone, "-") && strings.HasPrefix(name, gone) {
				t.Errorf("the copy has the header %s", name)
			}
		}
		if text, ok := value.(string); ok && strings.HasPrefix(name, "x-warren-origin-") && second.Headers[name] != text {
			t.Errorf("%s was %q, and is %v after another Redrive", name, text, second.Headers[name])
		}
	}
}

// delivered is a message that is delivered once more: RabbitMQ has counted, and the maps are filled from the end.
func delivered(message *amqp.Delivery) *amqp.Delivery {
	again := *message
	again.Headers = refilled(message.Headers).(amqp.Table)
	again.Redelivered = true
	again.Headers[headerDeliveryCount], again.Headers[headerAcquiredCount] = int64(7), int64(8)
	return &again
}

func refilled(value any) any {
	switch value := value.(type) {
	case amqp.Table:
		table := amqp.Table{}
		for _, name := range slices.Backward(slices.Sorted(maps.Keys(value))) {
			table[name] = refilled(value[name])
		}
		return table
	case []any:
		list := make([]any, len(value))
		for i, item := range value {
			list[i] = refilled(item)
		}
		return list
	}
	return value
}

// telling are headers that this package reads, sets or removes.
var telling = []string{
	"x-death", "x-first-death-queue", "x-last-death-reason", "x-delivery-count", "x-acquired-count", "CC", "BCC", "x-retry-count",
	"x-defer-count", "x-copy-id", "x-failure-queue", "x-original-exchange", "x-original-routing-key", "x-warren-redrive-count",
	"x-warren-redrive-id", "x-warren-redrive-by", "x-warren-origin-queue", "x-warren-origin-reason", "x-warren-origin-exchange",
	"x-warren-origin-routing-key", "x-warren-origin-cc", headerDeliveryTime, headerDeferralToken,
}

func anyMessage(t *rapid.T) *amqp.Delivery {
	message := &amqp.Delivery{
		Exchange: anyText(t, "exchange"), RoutingKey: anyText(t, "key"), MessageId: anyText(t, "id"), UserId: anyText(t, "user"),
		ContentType: anyText(t, "type"), Expiration: anyText(t, "expiration"), Priority: rapid.Byte().Draw(t, "priority"),
		Headers: amqp.Table{}, Body: rapid.SampledFrom([][]byte{nil, []byte(`{"a": 1, "b": [null, 1e400, "c"]}`), []byte("[1e40]"), {0xff}}).Draw(t, "body"),
	}
	if rapid.Bool().Draw(t, "dated") {
		message.Timestamp = anyTime(t)
	}
	for range rapid.IntRange(0, 6).Draw(t, "headers") {
		message.Headers[anyHeader(t)] = anyField(t, 3)
	}
	if rapid.Bool().Draw(t, "died") {
		message.Headers[headerDeath] = anyDeaths(t)
	}
	return message
}

func anyHeader(t *rapid.T) string {
	return rapid.OneOf(rapid.SampledFrom(telling), rapid.SampledFrom([]string{"tenant", "a", "", "x-failure-kind"}), rapid.String()).Draw(t, "header")
}

func anyText(t *rapid.T, label string) string {
	return rapid.OneOf(rapid.SampledFrom([]string{"", "orders", "orders.retry.30s", "other"}), rapid.String()).Draw(t, label)
}

func anyTime(t *rapid.T) time.Time { return time.Unix(rapid.Int64().Draw(t, "seconds"), 0) }

// anyDeaths is x-death as RabbitMQ writes it, except that some fields are missing or of any type.
func anyDeaths(t *rapid.T) []any {
	deaths := make([]any, rapid.IntRange(0, 3).Draw(t, "deaths"))
	for i := range deaths {
		d := amqp.Table{
			"queue": anyText(t, "queue"), "exchange": anyText(t, "exchange"), "routing-keys": []any{anyText(t, "key")}, "count": int64(1),
			"reason": rapid.SampledFrom([]string{"rejected", "expired", "maxlen", "delivery_limit", "bored"}).Draw(t, "reason"), "time": anyTime(t),
		}
		for _, name := range slices.Sorted(maps.Keys(d)) {
			switch rapid.IntRange(0, 9).Draw(t, "oddness") {
			case 0:
				d[name] = anyField(t, 2)
			case 1:
				delete(d, name)
			}
		}
		deaths[i] = d
	}
	return deaths
}

// anyField is a field of a table, of each type that the AMQP library reads.
func anyField(t *rapid.T, depth int) any {
	kinds := 15
	if depth == 0 {
		kinds = 13 // nothing that has fields
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2:
		return rapid.Int8().Draw(t, "int8")
	case 3:
		return rapid.Uint8().Draw(t, "uint8")
	case 4:
		return rapid.Int16().Draw(t, "int16")
	case 5:
		return rapid.Int32().Draw(t, "int32")
	case 6:
		return rapid.Int64().Draw(t, "int64")
	case 7:
		return rapid.Float32().Draw(t, "float32")
	case 8:
		return rapid.Float64().Draw(t, "float64")
	case 9:
		return amqp.Decimal{Scale: rapid.Uint8().Draw(t, "scale"), Value: rapid.Int32().Draw(t, "value")}
	case 10:
		return anyText(t, "text")
	case 11:
		return rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "bytes")
	case 12:
		return anyTime(t)
	case 13:
		list := make([]any, rapid.IntRange(0, 3).Draw(t, "items"))
		for i := range list {
			list[i] = anyField(t, depth-1)
		}
		return list
	}
	table := amqp.Table{}
	for range rapid.IntRange(0, 3).Draw(t, "fields") {
		table[rapid.String().Draw(t, "field")] = anyField(t, depth-1)
	}
	return table
}

// anySelection often selects the message.
func anySelection(t *rapid.T, message *amqp.Delivery) selection {
	var selection selection
	optional := func(label string, give func()) {
		if rapid.Bool().Draw(t, label) {
			give()
		}
	}
	optional("by id", func() {
		ids := rapid.OneOf(rapid.Just(Fingerprint(message)), rapid.StringMatching("[a-z2-7]{16}"), rapid.String())
		selection.IDs = rapid.SliceOfN(ids, 1, 3).Draw(t, "ids")
	})
	optional("by reason", func() {
		reasons := rapid.SampledFrom([]v1alpha1.DeadLetterReason{Rejected, Expired, MaxLength, DeliveryLimit, Parked, "Bored"})
		selection.Reasons = rapid.SliceOfN(reasons, 1, 3).Draw(t, "reasons")
	})
	optional("by header", func() {
		selection.Headers = []v1alpha1.HeaderRequirement{{
			Name: anyHeader(t), Operator: rapid.SampledFrom([]string{in, "NotIn", exists, doesNotExist, "Like"}).Draw(t, "operator"),
			Values: rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "values"),
		}}
	})
	optional("by time", func() {
		selection.DiedAfter, selection.DiedBefore = new(metav1.NewTime(anyTime(t))), new(metav1.NewTime(anyTime(t)))
	})
	optional("expression", func() {
		selection.Expression = rapid.OneOf(rapid.SampledFrom(expressions), rapid.String()).Draw(t, "expression")
	})
	return selection
}

// expressions are seeds for FuzzExpression, harmless ones and others.
var expressions = []string{
	`body.a == 1`, `headers.CC[0] == "a"`, `body == null || size(headers) > 2`, `body == body && headers == headers`, `reason in ["Rejected", "Expired"]`,
	`headers["x-death"].exists(d, d.queue == "orders" && d.count > 1)`, `origin.queue.matches("^ord+")`, `age > duration("1h") && redrives == 0`,
	`properties.messageId + headers.a != ""`, `headers.all(name, headers[name] != null)`, `size % redrives == 0`, `timestamp(headers.a) < timestamp(0)`,
	`[headers.a].map(x, x).exists(x, x == x)`, `[[1]].exists(x, [[x, x]].exists(y, [[y, y]].exists(z, z == z)))`, `[headers.a].map(x, x + x).size() > 0`,
	`headers.a.upperAscii().trim().charAt(0) == "A" || headers.a.matches("(a+)+$")`, costly,
	`["aaaaaaaa"]` + strings.Repeat(`.map(x, x + x)`, 40) + `.exists(x, x == "")`,
	`[headers.a]` + strings.Repeat(`.map(x, x + x)`, 23) + `.exists(x, x == "")`, `[[1]]` + strings.Repeat(`.map(x, [x, x])`, 26) + `.exists(x, x == x)`,
	`[headers.CC].exists(x, x + x == x + headers.a && 1 in x + x)`, `headers.CC.map(x, headers) != headers.CC.map(x, headers)`,
	`[headers.CC].exists(x, ` + strings.Repeat(`{[x, x]: 0}.exists(x, `, 26) + `x == x` + strings.Repeat(`)`, 27),
	`[headers.CC].exists(x, ` + strings.Repeat(`{x + x: 0}.exists(x, `, 26) + `1 in x` + strings.Repeat(`)`, 27),
}

// FuzzExpression shows that an expression costs no more than it may, in the units of CEL as well as in memory and time.
func FuzzExpression(f *testing.F) {
	for _, expression := range expressions {
		f.Add(expression, `{"a": "aaaaaaaaaaaaaaaaaaaa", "CC": ["a", 1], "x-death": [{"queue": "orders", "reason": "rejected", "count": 2}]}`, `{"a": 1}`)
		f.Add(expression, `{"a": [[1, [2]], {"b": {}}], "x-death": {"queue": []}}`, `[1e400]`)
	}
	f.Fuzz(func(t *testing.T, expression, headers, body string) {
		parsed := map[string]any{}
		if len(headers)+len(body) > 64<<10 || json.Unmarshal([]byte(headers), &parsed) != nil {
			return
		}
		compiled, err := compileExpression(expression)
		if err != nil {
			return
		}
		deadLetter := orders.Read(&amqp.Delivery{Headers: tableOf(parsed).(amqp.Table), Body: []byte(body)})
		_ = checkCost(t, compiled, deadLetter) // an error is a valid result
	})
}

// Large messages do not evade the limits.
func TestExpressionWithLargeMessages(t *testing.T) {
	many := amqp.Table{} // which fit into a frame of 128 KiB
	for i := range 8000 {
		many[strconv.Itoa(i)] = true
	}
	fields := make([]string, maxBodyValues-2)
	for i := range fields {
		fields[i] = fmt.Sprintf(`, "%d": 0`, i)
	}
	for name, test := range map[string]struct {
		expression, body string
		headers          amqp.Table
	}{
		"texts that are added": {
			expression: `size(` + strings.Repeat("body.t + ", 100) + `"") > 0`, body: `{"t": "` + strings.Repeat("a", 1<<20) + `"}`,
		},
		"comparisons in a loop": {
			expression: `body.l.all(x, body.m == body.m)`, body: `{"l": [1, 2, 3], "m": [[0` + strings.Repeat(", 0", maxBodyValues/2) + `]]}`,
		},
		"many values":                  {expression: `body == 1`, body: `[{"": 0}` + strings.Repeat(`, {"": 0}`, 1<<20) + `]`},
		"headers in a loop":            {expression: `headers.all(name, headers[name] != null)`, headers: many},
		"loops over headers in a loop": {expression: `headers.all(name, headers.exists(name, true))`, headers: many},
		"loops over a map in a loop": {
			expression: `body.all(name, body.exists(name, true))`, body: `{"": 0` + strings.Join(fields, "") + `}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			compiled, err := compileExpression(test.expression)
			if err != nil {
				t.Fatal(err)
			}
			deadLetter := orders.Read(&amqp.Delivery{Headers: test.headers, Body: []byte(test.body)})
			if err := checkCost(t, compiled, deadLetter); err == nil {
				t.Error("does not fail")
			}
		})
	}
}

// checkCost evaluates an expression and returns its error.
func checkCost(t *testing.T, compiled *compiledExpression, deadLetter Message) error {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var details *cel.EvalDetails
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, details, err = compiled.program.Eval(&variables{deadLetter: deadLetter, now: at})
	}()
	select {
	case <-ended:
	case <-time.After(deadline.For(5 * time.Second)):
		t.Fatalf("takes more than %v", deadline.For(5*time.Second))
	}
	runtime.ReadMemStats(&after)
	if cost := details.ActualCost(); err == nil && (cost == nil || *cost > maxExpressionCost) {
		t.Errorf("costs more than %d, and does not fail", maxExpressionCost)
	}
	if allocated := (after.TotalAlloc - before.TotalAlloc) >> 20; allocated > 64 {
		t.Errorf("takes %d MiB of memory", allocated)
	}
	return err
}

// tableOf has maps as the AMQP library decodes them.
func tableOf(value any) any {
	switch value := value.(type) {
	case map[string]any:
		table := amqp.Table{}
		for name, field := range value {
			table[name] = tableOf(field)
		}
		return table
	case []any:
		for i, item := range value {
			value[i] = tableOf(item)
		}
		return value
	}
	return value
}
