package deadletter

import (
	"encoding/json"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Whatever somebody publishes can be read, judged and copied; and a fingerprint does not change when the message is delivered again.
func FuzzMessages(f *testing.F) {
	f.Add(`{"x-death":[{"queue":"orders","reason":"rejected","exchange":"","routing-keys":["orders"]}]}`, `{"a":1}`, `body.a == 1`)
	f.Add(`{"x-death":{"queue":[]},"CC":["a",1],"x-warren-redrive-count":"2"}`, `[1e400]`, `headers.CC[0] == "a"`)
	f.Add(`{"x-failure-queue":7,"x-warren-origin-reason":null}`, `null`, `body == null || size(headers) > 2`)
	f.Fuzz(func(t *testing.T, headers, body, where string) {
		parsed := map[string]any{}
		if json.Unmarshal([]byte(headers), &parsed) != nil {
			return
		}
		message := amqp.Delivery{Headers: tableOf(parsed).(amqp.Table), Body: []byte(body)}
		again := amqp.Delivery{Headers: tableOf(parsed).(amqp.Table), Body: []byte(body), Redelivered: true}
		again.Headers[headerDeliveryCount] = int64(1)
		delete(message.Headers, headerDeliveryCount)
		if Fingerprint(&message) != Fingerprint(&again) {
			t.Error("the fingerprint has changed")
		}
		letter := orders.Read(&message)
		copied := stamp.Copy(letter, at, 1)
		for _, name := range []string{"x-death", "x-delivery-count", "x-acquired-count", "CC", "BCC", "x-defer-count", "x-copy-id"} {
			if _, found := copied.Headers[name]; found {
				t.Errorf("the copy has the header %s", name)
			}
		}
		selector, err := Compile(Selection{Where: where})
		if err != nil {
			return
		}
		Rules{Source: orders, Selector: selector}.Skips(letter, at)
	})
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
