package redact

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		// Users and passwords of URIs.
		`dial amqp://bob:horse@mq:5672: refused`:    `dial amqp://[redacted]@mq:5672: refused`,
		`Get "https://bob:p/w?d#x@y@mq/api": EOF`:   `Get "https://[redacted]@mq/api": EOF`,
		`amqps://bob:correct%20%22horse%22@mq/shop`: `amqps://[redacted]@mq/shop`,
		`amqps://mq:5671/shop`:                      `amqps://mq:5671/shop`,
		`write to ops@example.com`:                  `write to ops@example.com`,
		// Names of passwords with their values.
		`password=horse user=bob`:                            `password=[redacted] user=bob`,
		`--from-literal=password='correct horse' -n shop`:    `--from-literal=password=[redacted] -n shop`,
		`{"x-api-key": "hor\"se", "n": 1}`:                   `{"x-api-key": [redacted], "n": 1}`,
		`https://mq/api?access_token=abc&vhost=shop`:         `https://mq/api?access_token=[redacted]&vhost=shop`,
		`--client-secret abc`:                                `--client-secret abc`,
		`Secret "rabbitmq" not found`:                        `Secret "rabbitmq" not found`,
		`Secret "rabbitmq" has no key "password"`:            `Secret "rabbitmq" has no key "password"`,
		`--resource=serviceaccounts/token --resource-name=a`: `--resource=serviceaccounts/token --resource-name=a`,
		// Credentials of HTTP, tokens and keys.
		`Authorization: Basic Ym9iOmhvcnNl`:                                          `Authorization: [redacted] [redacted]`,
		`basic authentication`:                                                       `basic [redacted]`,
		`sent Bearer abcdefgh.ijk to mq`:                                             `sent Bearer [redacted] to mq`,
		`got eyJhbGciOi.eyJpc3Mi.c2lnbmF0dXJl, refused`:                              `got [redacted], refused`,
		"-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nrest": "[redacted]\nrest",
		"-----BEGIN PRIVATE KEY-----\nMIIE":                                          "[redacted]",
		// Selectors, which compare with payloads.
		"spec.selector.expression: ERROR: <input>:1:6: undeclared reference\n | body.acme": "spec.selector.expression: [redacted]",
		`spec.selector.ids: "acme" is not the ID of a dead letter`:                         `spec.selector.ids: [redacted]`,
		`reasons: [Parked], expression: body.tenant == "acme"`:                             `reasons: [Parked], expression: [redacted]`,
		"3 skipped (NotEvaluated: no such key: acme (EU)\nLtd), 1 skipped (CameBack)":      "3 skipped (NotEvaluated: no such key: [redacted]",
		// Users of the API server, whom its refusals name.
		`purges is forbidden: User "alice@corp.example" cannot list resource "purges" in namespace "shop"`: `purges is forbidden: ` +
			`User "[redacted]" cannot list resource "purges" in namespace "shop"`,
		`users "bob" is forbidden: User "al\"ice" cannot impersonate resource "users"`: `users "[redacted]" is forbidden: ` +
			`User "[redacted]" cannot impersonate resource "users"`,
		`deadletterqueues "orders" is forbidden: user "alice" cannot get resource "deadletterqueues"`: `deadletterqueues "orders" is ` +
			`forbidden: user "[redacted]" cannot get resource "deadletterqueues"`,
		`create SubjectAccessReview for user "alice": EOF`: `create SubjectAccessReview for user "[redacted]": EOF`,
		`user "warren" lacks the tag policymaker`:          `user "warren" lacks the tag policymaker`, // of RabbitMQ
		// Everything else stays.
		`queue "orders" must be recreated: x-message-ttl is not set, should be 300000`: `queue "orders" must be recreated: x-message-ttl is not set, should be 300000`,
		"": "",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			if got := Text(text); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestLog(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ log, want string }{
		"a line of JSON": {
			`{"level":"info","msg":"The broker connection failed","vhost":"shop","reason":"dial amqp://bob:a\"b@mq: refused"}`,
			`{"level":"info","msg":"The broker connection failed","reason":"dial amqp://[redacted]@mq: refused","vhost":"shop"}`,
		},
		"a Redrive": {
			`{"msg":"Started","selection":"expression: body.tenant == \"acme\"","requestedBy":"bob","reason":"bob's bug","total":3}`,
			`{"msg":"Started","reason":"[redacted]","requestedBy":"[redacted]","selection":"expression: [redacted]","total":3}`,
		},
		"a browse": {
			`{"msg":"Browsed dead letters","user":"bob@example.com","queue":"orders.dlq","shown":3}`,
			`{"msg":"Browsed dead letters","queue":"orders.dlq","shown":3,"user":"[redacted]"}`,
		},
		"fields of fields": {
			`{"config":{"password":"horse","secretRef":{"name":"rabbitmq"}},"list":[{"token":7}]}`,
			`{"config":{"password":"[redacted]","secretRef":{"name":"rabbitmq"}},"list":[{"token":"[redacted]"}]}`,
		},
		"console format": {
			"2026-11-26T10:00:00Z\tINFO\tStarted\t" + `{"requestedBy":"bob","selection":"all"}`,
			"2026-11-26T10:00:00Z\tINFO\tStarted\t" + `{"requestedBy":"[redacted]","selection":"all"}`,
		},
		"text": {"panic: amqp://bob:horse@mq\ngoroutine 1 [running]: main.main({0x1, 0x2})", "panic: amqp://[redacted]@mq\ngoroutine 1 [running]: main.main({0x1, 0x2})"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if difference := cmp.Diff(test.want+"\n", string(Log([]byte(test.log)))); difference != "" {
				t.Errorf("(-want +got):\n%s", difference)
			}
		})
	}
}
