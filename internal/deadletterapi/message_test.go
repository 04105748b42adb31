package deadletterapi

import (
	"encoding/json"
	"math"
	"regexp"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/internal/deadletter"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

var (
	orders   = deadletter.Source{Main: "orders"}
	died     = time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC)
	defaults = regexp.MustCompile(DefaultRedacted)
)

// rejected is a message that a consumer of the main queue has rejected.
func rejected(body string) amqp.Delivery {
	return amqp.Delivery{
		ContentType: "application/json", MessageId: "m1", DeliveryMode: amqp.Persistent, Body: []byte(body),
		Headers: amqp.Table{"x-death": []any{amqp.Table{
			"queue": "orders", "reason": "rejected", "count": int64(1), "time": died, "exchange": "shop", "routing-keys": []any{"order.placed"},
		}}},
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	message := rejected(`{"n":1}`)
	message.Headers["x-warren-redrive-count"], message.Headers["Authorization"], message.Expiration = int64(2), "Bearer abc", "60000"
	got := describe(orders.Read(&message), 7, 100, defaults)
	topologytest.Equal(t, "message", v1alpha1.DeadLetter{
		Position: 7, ID: deadletter.Fingerprint(&message), Reason: "Rejected", Redrives: 2,
		Origin: v1alpha1.Origin{
			Queue: "orders", Exchange: new("shop"), RoutingKey: new("order.placed"), DiedAt: new(metav1.NewTime(died)),
		},
		Properties: map[string]any{
			"contentType": "application/json", "messageId": "m1", "expiration": "60000", "deliveryMode": int64(2), "priority": int64(0),
		},
		Headers: map[string]any{
			"x-warren-redrive-count": int64(2), "Authorization": "[redacted]",
			"x-death": []any{map[string]any{
				"queue": "orders", "reason": "rejected", "count": int64(1), "time": "2026-11-01T10:00:00Z", "exchange": "shop",
				"routing-keys": []any{"order.placed"},
			}},
		},
		Size: 7, Body: `{"n":1}`, BodyEncoding: v1alpha1.UTF8,
		Warnings: []v1alpha1.Warning{v1alpha1.WarningExpiresInQueue, v1alpha1.WarningCameBack},
	}, got)
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*amqp.Delivery)
		want   []v1alpha1.Warning
	}{
		"none":              {func(*amqp.Delivery) {}, nil},
		"expires":           {func(m *amqp.Delivery) { m.Expiration = "1" }, []v1alpha1.Warning{v1alpha1.WarningExpiresInQueue}},
		"moved back before": {func(m *amqp.Delivery) { m.Headers["x-warren-redrive-count"] = int64(1) }, []v1alpha1.Warning{v1alpha1.WarningCameBack}},
		"whose":             {func(m *amqp.Delivery) { m.Headers = nil }, []v1alpha1.Warning{v1alpha1.WarningNoOrigin}},
		"of AMQP 1.0":       {func(m *amqp.Delivery) { m.Type = "amqp-1.0" }, []v1alpha1.Warning{v1alpha1.WarningAMQP10}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			message := rejected("")
			test.change(&message)
			topologytest.Equal(t, "warnings", test.want, warningsOf(orders.Read(&message)))
		})
	}
}

func TestBody(t *testing.T) {
	t.Parallel()
	type body struct {
		Text      string
		Encoding  v1alpha1.Encoding
		Truncated bool
	}
	for name, test := range map[string]struct {
		body  string
		limit int
		want  body
	}{
		"empty":                     {"", 10, body{"", v1alpha1.UTF8, false}},
		"all of a text":             {"abc", 3, body{"abc", v1alpha1.UTF8, false}},
		"the beginning":             {"abcd", 3, body{"abc", v1alpha1.UTF8, true}},
		"a character is not cut":    {"aé", 2, body{"a", v1alpha1.UTF8, true}},
		"nothing":                   {"abc", 0, body{"", v1alpha1.UTF8, true}},
		"bytes":                     {"\xff\x00", 10, body{"/wA=", v1alpha1.Base64, false}},
		"the beginning of bytes":    {"ab\xff", 2, body{"YWI=", v1alpha1.Base64, true}},
		"a text that ends in bytes": {"ab\xc3", 3, body{"YWLD", v1alpha1.Base64, false}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got body
			got.Text, got.Encoding, got.Truncated = beginningOf([]byte(test.body), test.limit)
			topologytest.Equal(t, "body", test.want, got)
		})
	}
}

func TestRedaction(t *testing.T) {
	t.Parallel()
	headers := amqp.Table{
		"authorization": "a", "X-Api-Key": "b", "apikey": "c", "Set-Cookie": "d", "id-token": "e", "clientSecret": "f", "PASSWORD": "g",
		"tenant": "acme", "nested": amqp.Table{"token": "h", "user": "bob"}, "list": []any{amqp.Table{"secret": "i"}},
	}
	topologytest.Equal(t, "headers", map[string]any{
		"authorization": redacted, "X-Api-Key": redacted, "apikey": redacted, "Set-Cookie": redacted, "id-token": redacted,
		"clientSecret": redacted, "PASSWORD": redacted, "tenant": "acme", "nested": map[string]any{"token": redacted, "user": "bob"},
		"list": []any{map[string]any{"secret": redacted}},
	}, plain(headers, defaults))
}

func TestNamesThatAreRedacted(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"api_key": true, "access-key": true, "private.key": true, "passwd": true, "pwd": true, "X-Credential-Id": true, "session-id": true,
		"jwt": true, "x-signature": true, "routing-key": false, "partition-key": false, "x-failure-kind": false, "tenant": false,
	} {
		topologytest.Equal(t, name, want, defaults.MatchString(name))
	}
}

// JSON can represent every type of field, and an export also its type.
func TestValues(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		value any
		plain string
		typed string
	}{
		"void":           {nil, `null`, `{"type":"void","value":null}`},
		"boolean":        {true, `true`, `{"type":"boolean","value":true}`},
		"byte":           {int8(-1), `-1`, `{"type":"byte","value":-1}`},
		"unsigned byte":  {uint8(1), `1`, `{"type":"unsignedbyte","value":1}`},
		"short":          {int16(2), `2`, `{"type":"short","value":2}`},
		"unsigned short": {uint16(2), `2`, `{"type":"unsignedshort","value":2}`},
		"int":            {int32(3), `3`, `{"type":"int","value":3}`},
		"unsigned int":   {uint32(3), `3`, `{"type":"unsignedint","value":3}`},
		"long":           {int64(math.MaxInt64), `9223372036854775807`, `{"type":"long","value":9223372036854775807}`},
		"float":          {float32(0.5), `0.5`, `{"type":"float","value":0.5}`},
		"double":         {0.5, `0.5`, `{"type":"double","value":0.5}`},
		"no number":      {math.NaN(), `"NaN"`, `{"type":"double","value":"NaN"}`},
		"infinity":       {math.Inf(-1), `"-Inf"`, `{"type":"double","value":"-Inf"}`},
		"decimal":        {amqp.Decimal{Scale: 2, Value: 1234}, `"1234e-2"`, `{"type":"decimal","value":"1234e-2"}`},
		"text":           {"é", `"é"`, `{"type":"longstr","value":"é"}`},
		"text of bytes":  {"\xff", `"/w=="`, `{"type":"longstr","encoding":"base64","value":"/w=="}`},
		"binary":         {[]byte{0xff}, `"/w=="`, `{"type":"binary","value":"/w=="}`},
		"timestamp":      {died, `"2026-11-01T10:00:00Z"`, `{"type":"timestamp","value":"2026-11-01T10:00:00Z"}`},
		"array":          {[]any{int64(1), "a"}, `[1,"a"]`, `{"type":"array","value":[{"type":"long","value":1},{"type":"longstr","value":"a"}]}`},
		"table":          {amqp.Table{"a": true}, `{"a":true}`, `{"type":"table","value":{"a":{"type":"boolean","value":true}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topologytest.Equal(t, "plain", test.plain, jsonOf(t, plainValue(test.value, defaults)))
			topologytest.Equal(t, "typed", test.typed, jsonOf(t, typedValue(test.value)))
		})
	}
}

func jsonOf(t testing.TB, value any) string {
	t.Helper()
	written, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(written)
}

// JSON can represent every message that a client can publish.
func FuzzDescribe(f *testing.F) {
	f.Add("application/json", "tenant", "acme", `{"n":1}`, 3)
	f.Add("\xff", "\xc3", "\x00", "\xffé", 1)
	f.Fuzz(func(t *testing.T, contentType, name, value, body string, limit int) {
		message := amqp.Delivery{ContentType: contentType, Headers: amqp.Table{name: value}, Body: []byte(body)}
		described := describe(orders.Read(&message), 0, max(0, limit), defaults)
		if !json.Valid([]byte(jsonOf(t, described))) || !json.Valid([]byte(jsonOf(t, exported(&message, 0)))) {
			t.Error("the JSON is not valid")
		}
		if described.BodyEncoding == v1alpha1.UTF8 && !described.BodyTruncated && described.Body != body {
			t.Errorf("the body is %q and was %q", described.Body, body)
		}
	})
}
