package v1alpha1_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// rule is a rule of the specification, with specs that follow it and specs that violate it.
type rule struct {
	// kind is ConsumerQueue if not given, name is orders.
	kind, name string
	// from is the spec before the change, for rules about changes. Without it the test creates objects.
	from string
	// accepted are specs.
	accepted []string
	// refused are specs, each with the message that the user sees. … stands for omitted text.
	refused map[string]string
}

const (
	tooManyBytes     = "must be at most 255 bytes"
	lineBreaks       = "must not hold line breaks: the broker strips them"
	reserved         = "names that begin with amq. are reserved by the broker: choose another"
	badDuration      = "must be integers with d, h, m, s, ms in that order, such as 14d, 1h30m or 90s"
	durationEnds     = "must be between 1ms and 1193h2m47s295ms (49 days), the longest time that RabbitMQ accepts"
	ownField         = "this argument has a field of its own: use messageTTL, deliveryLimit, maxLength, maxLengthBytes, overflow, singleActiveConsumer, initialGroupSize, leaderLocator or consumerTimeout"
	followed         = "x-queue-type, x-dead-letter-* and x-delayed-retry-* follow from the spec: use deadLetter, deadLetterStrategy and retry"
	badLimit         = "must be a number from 0 to 2147483647, Unlimited, or BrokerDefault"
	badBytes         = "must be a whole number of bytes, such as 1073741824, 500M or 1Gi"
	sameQueue        = "two delay tiers have the same queue name: choose another queueName"
	sameKey          = "two delay tiers have the same routing key, so a message would wait in both: choose another routingKey"
	sameExchange     = "the dead-letter exchange must differ from retry.exchange and from the exchanges of bindings: choose another deadLetter.exchange.name"
	derived          = "the name <main queue>.dlx or <main queue>.dlq exceeds 255 bytes: give deadLetter.exchange.name and deadLetter.queue.name, or a shorter queue.name"
	derivedTier      = "the name <main queue>.retry.<delay> exceeds 255 bytes: give delayTiers with queueName, or a shorter queue.name"
	renamed          = "spec.queue: Invalid value: … the name of the main queue cannot be changed: create another ConsumerQueue for another queue"
	reconnected      = "spec.connectionRef: Invalid value: … the connection cannot be changed: create another ConsumerQueue for another connection"
	ttlStraight      = "queue.messageTTL loses or blocks expired messages with retry.strategy Reject where retry.exchange is given, deadLetter.exchange.type is not headers, or dead-lettering is disabled: remove queue.messageTTL, or dead-letter through an exchange of type headers, without retry.exchange"
	lenStraight      = "queue.maxLength and queue.maxLengthBytes with deadLetterStrategy AtMostOnce lose the messages that exceed them with retry.strategy Reject where retry.exchange is given, deadLetter.exchange.type is not headers, or dead-lettering is disabled: use AtLeastOnce, remove the limits, or dead-letter through an exchange of type headers, without retry.exchange"
	numStraight      = "a numeric queue.deliveryLimit loses messages with retry.strategy Reject where retry.exchange is given, deadLetter.exchange.type is not headers, or dead-lettering is disabled: use Unlimited, or dead-letter through an exchange of type headers, without retry.exchange"
	noPolicy         = "retry.policy None takes no other retry fields: remove them, or remove policy"
	noTiers          = "strategy Requeue has no delay tiers: remove delayTiers, exchange and returnTo; redeliveryDelay delays redeliveries on RabbitMQ 4.3 and newer"
	noDead           = "deadLetter.policy Disabled takes no other deadLetter fields: remove them, or remove policy"
	headersDLX       = "deadLetter.exchange.type headers routes rejected messages to the delay tier: it needs retry.strategy Reject without retry.exchange; use another type"
	dropHead         = "queue.overflow DropHead defeats at-least-once dead-lettering: use RejectPublish, or deadLetterStrategy AtMostOnce"
	fanoutKey        = "deadLetter.routingKey has no meaning for a fanout or headers exchange: remove it, or set deadLetter.exchange with type direct or topic"
	oneSource        = "set exactly one of secretRef (a Secret with username, password and URIs) and clusterRef (a RabbitmqCluster)"
	noPassword       = "must not contain a user or password: put them into the Secret"
	recreatesNothing = "recreation has no meaning with recreatePolicy Manual, which recreates no queue: set recreatePolicy to WhenEmpty or Migrate, or remove recreation"
	needsNoApproval  = "recreation.approval and recreation.maxReadyMessages have no meaning with recreatePolicy WhenEmpty, which waits until the queue is empty: remove them, or set recreatePolicy to Migrate"
)

var (
	long254 = strings.Repeat("a", 254)
	long255 = strings.Repeat("a", 255)
	long256 = strings.Repeat("a", 256)
	// 130 characters and 260 bytes
	wide260 = strings.Repeat("ü", 130)
)

var consumerQueueRules = map[string]rule{
	"everything has a default": {accepted: []string{`{}`, `{queue: {}, retry: {}, deadLetter: {}, bindings: []}`, `{deadLetter: {exchange: {}, queue: {}}}`}},
	"unknown fields are refused by strict clients": {refused: map[string]string{
		`{queues: {}}`: `unknown field "spec.queues"`,
		`{deadLetter: {queue: {singleActiveConsumer: true}}}`: `unknown field "spec.deadLetter.queue.singleActiveConsumer"`,
	}},

	"connectionRef.name: a name": {
		accepted: []string{`connectionRef: {name: production}`, `connectionRef: {name: ` + long254[:253] + `}`},
		refused: map[string]string{
			`connectionRef: {}`:                      "spec.connectionRef.name: Required value",
			`connectionRef: {name: ""}`:              "spec.connectionRef.name: Invalid value: … should be at least 1 chars long",
			`connectionRef: {name: ` + long254 + `}`: "spec.connectionRef.name: Too long: may not be more than 253",
		},
	},
	"connectionRef.name: the effective value is immutable": {
		from:     `{}`,
		accepted: []string{`{}`, `connectionRef: {name: default}`, `{suspend: true}`},
		refused:  map[string]string{`connectionRef: {name: other}`: reconnected},
	},
	"connectionRef.name: the effective value is immutable once given": {
		from:     `connectionRef: {name: other}`,
		accepted: []string{`connectionRef: {name: other}`},
		refused:  map[string]string{`{}`: reconnected, `connectionRef: {name: default}`: reconnected},
	},

	"queue.name: 1 to 255 bytes, not amq.*": {
		accepted: []string{
			`queue: {name: a}`, `queue: {name: "a/b c%2F ü 🐇 #*"}`, `queue: {name: amq}`, `queue: {name: amqp.orders}`,
			`{queue: {name: ` + long255 + `}, retry: {policy: None}, deadLetter: {policy: Disabled}}`,
		},
		refused: map[string]string{
			`queue: {name: ""}`:         "spec.queue.name: Invalid value: … should be at least 1 chars long",
			`queue: {name: amq.orders}`: "spec.queue.name: Invalid value: … " + reserved,
			`queue: {name: "a\nb"}`:     "spec.queue.name: Invalid value: … " + lineBreaks,
			`queue: {name: "a\rb"}`:     "spec.queue.name: Invalid value: … " + lineBreaks,
			`{queue: {name: ` + long256 + `}, retry: {policy: None}, deadLetter: {policy: Disabled}}`: "spec.queue.name: Too long: may not be more than 255",
			`{queue: {name: ` + wide260 + `}, retry: {policy: None}, deadLetter: {policy: Disabled}}`: "spec.queue.name: Invalid value: … " + tooManyBytes,
		},
	},
	"queue.name: not amq.*, where it is the resource's name": {
		name:     "amq.orders",
		accepted: []string{`queue: {name: orders}`},
		refused: map[string]string{
			`{}`: "spec.queue: Invalid value: … the resource's name is that of the main queue, and names that begin with amq. are reserved by the broker: give queue.name",
		},
	},
	"queue.name: the effective value is immutable": {
		from:     `{}`,
		accepted: []string{`{}`, `queue: {name: orders}`, `queue: {maxLength: 5}`},
		refused:  map[string]string{`queue: {name: other}`: renamed},
	},
	"queue.name: the effective value is immutable once given": {
		from:     `queue: {name: other}`,
		accepted: []string{`queue: {name: other, maxLength: 5}`},
		refused:  map[string]string{`{}`: renamed, `queue: {}`: renamed, `queue: {name: orders}`: renamed},
	},
	"queue.messageTTL: a duration": durations("queue: {messageTTL: %s}", "spec.queue.messageTTL"),
	"queue.deliveryLimit: a number, Unlimited, or BrokerDefault": limits("queue: {deliveryLimit: %s}", "spec.queue", badLimit,
		[]string{"0", "20", "2147483647", "Unlimited", "BrokerDefault"}, []string{"-1", "2147483648", "3000000000", "9223372036854775807", `"5"`, `""`, "unlimited", "broker"}),
	"queue.deliveryLimit: neither a fraction nor a truth value": {refused: map[string]string{
		`queue: {deliveryLimit: 1.5}`:  `spec.queue.deliveryLimit: Invalid value: … must be of type`,
		`queue: {deliveryLimit: true}`: `spec.queue.deliveryLimit: Invalid value: … must be of type`,
	}},
	"queue.maxLength: 0 to 2147483647": numbers("queue: {maxLength: %s}", "spec.queue.maxLength", 0),
	"queue.maxLengthBytes: a quantity": limits("queue: {maxLengthBytes: %s}", "spec.queue", badBytes,
		[]string{"0", "1073741824", "5000000000", "1Gi", "500M", `"5"`, "1e3", "9223372036854775807"},
		[]string{"-1", "-1Gi", `"1.5"`, "100m", `"1e30"`}),
	"queue.maxLengthBytes: neither a fraction nor a word": {refused: map[string]string{
		`queue: {maxLengthBytes: 1.5}`: "spec.queue.maxLengthBytes: Invalid value: … must be of type",
		`queue: {maxLengthBytes: ten}`: "spec.queue.maxLengthBytes: Invalid value: … should match … and … " + badBytes,
		`queue: {maxLengthBytes: ""}`:  "spec.queue.maxLengthBytes: Invalid value: … should match … and … " + badBytes,
	}},
	"queue.overflow": enum("queue: {overflow: %s}", "spec.queue.overflow", []string{`"RejectPublish", "DropHead"`}, []string{"RejectPublish"}, "DropTail"),
	"queue.overflow: DropHead is refused with AtLeastOnce where this queue has a DLX": {
		accepted: []string{
			`{queue: {overflow: DropHead}, deadLetterStrategy: AtMostOnce}`,
			`{queue: {overflow: DropHead}, deadLetter: {policy: Disabled}}`,
			`{queue: {overflow: DropHead}, deadLetter: {policy: Disabled}, retry: {policy: None}}`,
			`{deadLetter: {queue: {overflow: DropHead}}}`,
			`{queue: {overflow: RejectPublish}}`,
		},
		refused: map[string]string{
			`{queue: {overflow: DropHead}}`: dropHead,
			`{queue: {overflow: DropHead}, retry: {policy: None}, deadLetter: {policy: Enabled}}`:      dropHead,
			`{queue: {overflow: DropHead}, deadLetter: {policy: Disabled}, retry: {strategy: Reject}}`: dropHead,
		},
	},
	"queue.singleActiveConsumer": {
		accepted: []string{`queue: {singleActiveConsumer: true}`, `queue: {singleActiveConsumer: false}`},
		refused:  map[string]string{`queue: {singleActiveConsumer: "yes"}`: "spec.queue.singleActiveConsumer: Invalid value: … must be of type boolean"},
	},
	"queue.initialGroupSize: 1 to 2147483647": numbers("queue: {initialGroupSize: %s}", "spec.queue.initialGroupSize", 1),
	"queue.leaderLocator":                     enum("queue: {leaderLocator: %s}", "spec.queue.leaderLocator", []string{`"Balanced", "ClientLocal"`}, []string{"Balanced", "ClientLocal"}, "Random"),
	"queue.consumerTimeout: a duration":       durations("queue: {consumerTimeout: %s}", "spec.queue.consumerTimeout"),
	"queue.arguments: any further x- argument, integers and strings": {
		accepted: []string{
			`queue: {arguments: {x-quorum-target-group-size: 3, x-note: a, x-5: "5", x-less: -5}}`, `queue: {arguments: {}}`,
			`queue: {arguments: {x-n: 2147483647, x-m: -2147483648}}`, `queue: {arguments: {x-` + long255[2:] + `: 1}}`,
			`queue: {arguments: {x-note: ` + strings.Repeat("x", 1024) + `}}`,
			`queue: {arguments: ` + many(32, "x-%d: 1") + `}`, `queue: {arguments: {x-dead-letter: 1, x-delayed: 2}}`,
		},
		refused: map[string]string{
			`queue: {arguments: {note: 1}}`:                                                 "spec.queue.arguments: Invalid value: … names of queue arguments begin with x-",
			`queue: {arguments: {"": 1}}`:                                                   "spec.queue.arguments: Invalid value: … names of queue arguments begin with x- … and … names of arguments must be 1 to 255 bytes",
			`queue: {arguments: {x-` + long255 + `: 1}}`:                                    "spec.queue.arguments: Invalid value: … names of arguments must be 1 to 255 bytes",
			`queue: {arguments: {x-` + wide260 + `: 1}}`:                                    "spec.queue.arguments: Invalid value: … names of arguments must be 1 to 255 bytes",
			`queue: {arguments: {x-note: 3000000000}}`:                                      "spec.queue.arguments: Invalid value: … integers must be between -2147483648 and 2147483647",
			`queue: {arguments: {x-note: -3000000000}}`:                                     "spec.queue.arguments: Invalid value: … integers must be between -2147483648 and 2147483647",
			`queue: {arguments: {x-note: ` + strings.Repeat("x", 1025) + `}}`:               "spec.queue.arguments: Invalid value: … strings must be at most 1024 bytes",
			`deadLetter: {queue: {arguments: {x-note: ` + strings.Repeat("x", 1025) + `}}}`: "spec.deadLetter.queue.arguments: Invalid value: … strings must be at most 1024 bytes",
			`queue: {arguments: {x-note: true}}`:                                            "spec.queue.arguments.x-note: Invalid value: … must be of type",
			`queue: {arguments: {x-note: 1.5}}`:                                             "spec.queue.arguments.x-note: Invalid value: … must be of type",
			`queue: {arguments: {x-note: [1]}}`:                                             "spec.queue.arguments.x-note: Invalid value: … must be of type",
			`queue: {arguments: ` + many(33, "x-%d: 1") + `}`:                               "spec.queue.arguments: Too many: 33: must have at most 32 items",
			`deadLetter: {queue: {arguments: {note: 1}}}`:                                   "spec.deadLetter.queue.arguments: Invalid value: … names of queue arguments begin with x-",
			`deadLetter: {queue: {arguments: {x-n: 3000000000}}}`:                           "spec.deadLetter.queue.arguments: Invalid value: … integers must be between -2147483648 and 2147483647",
			`deadLetter: {queue: {arguments: {x-max-length: 1}}}`:                           "spec.deadLetter.queue.arguments: Invalid value: … " + ownField,
			`deadLetter: {queue: {arguments: {x-queue-type: q}}}`:                           "spec.deadLetter.queue.arguments: Invalid value: … " + followed,
			`deadLetter: {queue: {arguments: {x-max-priority: 1}}}`:                         "spec.deadLetter.queue.arguments: Invalid value: … quorum queues do not take x-max-priority: remove it",
			`deadLetter: {queue: {arguments: {x-expires: 1000}}}`:                           "spec.deadLetter.queue.arguments: Invalid value: … x-expires makes the broker delete an unused queue with its messages: remove x-expires",
		},
	},
	"queue.arguments: none that has a field or follows from the spec": {refused: refusedArguments()},

	"bindings: at most 64": {
		accepted: []string{`bindings: []`, `bindings: ` + many(64, "{exchange: {name: e%d}}")},
		refused: map[string]string{
			`bindings: ` + many(65, "{exchange: {name: e%d}}"): "spec.bindings: Too many: 65: must have at most 64 items",
			`bindings: [{}]`: "spec.bindings[0].exchange: Required value",
		},
	},
	"bindings: exchange.name, 1 to 255 bytes": {
		accepted: []string{`bindings: [{exchange: {name: a}}]`, `bindings: [{exchange: {name: ` + long255 + `}}]`, `bindings: [{exchange: {name: "ü/% #"}}]`, `bindings: [{exchange: {name: amq.topic}}]`},
		refused: map[string]string{
			`bindings: [{exchange: {}}]`:                         "spec.bindings[0].exchange.name: Required value",
			`bindings: [{exchange: {name: ""}}]`:                 "spec.bindings[0].exchange.name: Invalid value: … should be at least 1 chars long",
			`bindings: [{exchange: {name: ` + long256 + `}}]`:    "spec.bindings[0].exchange.name: Too long: may not be more than 255",
			`bindings: [{exchange: {name: ` + wide260 + `}}]`:    "spec.bindings[0].exchange.name: Invalid value: … " + tooManyBytes,
			`bindings: [{exchange: {name: "a\nb"}}]`:             "spec.bindings[0].exchange.name: Invalid value: … " + lineBreaks,
			`bindings: [{exchange: {name: amq.x, type: topic}}]`: "spec.bindings[0].exchange: Invalid value: … exchanges that begin with amq. are the broker's own: leave type out to use one",
		},
	},
	"bindings: exchange.type": enum("bindings: [{exchange: {name: e, type: %s}}]", "spec.bindings[0].exchange.type", []string{`"direct", "fanout", "topic", "headers"`}, []string{"direct", "fanout", "topic", "headers"}, "x-delayed-message"),
	"bindings: an exchange has one type": {
		accepted: []string{`bindings: [{exchange: {name: e, type: topic}}, {exchange: {name: e}}, {exchange: {name: e, type: topic}}, {exchange: {name: f, type: fanout}}]`},
		refused: map[string]string{
			`bindings: [{exchange: {name: e, type: topic}}, {exchange: {name: e, type: fanout}}]`: "spec.bindings: Invalid value: … bindings give one exchange two types: use the same exchange.type",
		},
	},
	"bindings: at most 64 routing keys of at most 255 bytes": {
		accepted: []string{
			`bindings: [{exchange: {name: e}, routingKeys: []}]`, `bindings: [{exchange: {name: e}, routingKeys: ["", "#", "ü ", ` + long255 + `]}]`,
			`bindings: [{exchange: {name: e}, routingKeys: ` + many(64, "k%d") + `}]`,
		},
		refused: map[string]string{
			`bindings: [{exchange: {name: e}, routingKeys: ` + many(65, "k%d") + `}]`: "spec.bindings[0].routingKeys: Too many: 65: must have at most 64 items",
			`bindings: [{exchange: {name: e}, routingKeys: [` + long256 + `]}]`:       "spec.bindings[0].routingKeys[0]: Too long: may not be more than 255",
			`bindings: [{exchange: {name: e}, routingKeys: [` + wide260 + `]}]`:       "spec.bindings[0].routingKeys[0]: Invalid value: … " + tooManyBytes,
		},
	},
	"bindings: arguments, integers and strings": {
		accepted: []string{`bindings: [{exchange: {name: e}, arguments: {x-match: all, kind: payment, n: -5}}]`, `bindings: [{exchange: {name: e}, arguments: ` + many(32, "a%d: 1") + `}]`},
		refused: map[string]string{
			`bindings: [{exchange: {name: e}, arguments: {n: 3000000000}}]`:                        "spec.bindings[0].arguments: Invalid value: … integers must be between -2147483648 and 2147483647",
			`bindings: [{exchange: {name: e}, arguments: {n: ` + strings.Repeat("x", 1025) + `}}]`: "spec.bindings[0].arguments: Invalid value: … strings must be at most 1024 bytes",
			`bindings: [{exchange: {name: e}, arguments: {a: true}}]`:                              "spec.bindings[0].arguments.a: Invalid value: … must be of type",
			`bindings: [{exchange: {name: e}, arguments: {"": 1}}]`:                                "spec.bindings[0].arguments: Invalid value: … names of arguments must be 1 to 255 bytes",
			`bindings: [{exchange: {name: e}, arguments: ` + many(33, "a%d: 1") + `}]`:             "spec.bindings[0].arguments: Too many: 33: must have at most 32 items",
		},
	},

	"retry.policy": enum("retry: {policy: %s}", "spec.retry.policy", []string{`"MaxAttempts", "None"`}, []string{"MaxAttempts", "None"}, "Some"),
	"retry.policy None: other retry fields are refused": {
		accepted: []string{`retry: {policy: None}`},
		refused: map[string]string{
			`retry: {policy: None, maxAttempts: 5}`:                      "spec.retry: Invalid value: … " + noPolicy,
			`retry: {policy: None, strategy: Publish}`:                   "spec.retry: Invalid value: … " + noPolicy,
			`retry: {policy: None, delayTiers: [{delay: 1s}]}`:           "spec.retry: Invalid value: … " + noPolicy,
			`retry: {policy: None, exchange: {name: e}}`:                 "spec.retry: Invalid value: … " + noPolicy,
			`retry: {policy: None, returnTo: {exchange: e}}`:             "spec.retry: Invalid value: … " + noPolicy,
			`retry: {policy: None, redeliveryDelay: {min: 1s, max: 1s}}`: "spec.retry: Invalid value: … " + noPolicy,
		},
	},
	"retry.maxAttempts: 1 to 2147483647": numbers("retry: {maxAttempts: %s}", "spec.retry.maxAttempts", 1),
	"retry.strategy":                     enum("retry: {strategy: %s}", "spec.retry.strategy", []string{`"Publish", "Reject", "Requeue"`}, []string{"Publish", "Reject", "Requeue"}, "Nack"),

	"retry.delayTiers: Publish has 1 to 16, delays ascending": {
		accepted: []string{
			`retry: {delayTiers: [{delay: 1s}]}`, `retry: {strategy: Publish, delayTiers: ` + tiersOf(16) + `}`,
			`retry: {delayTiers: [{delay: 1ms}, {delay: 1s}, {delay: 90s}, {delay: 24h}]}`,
		},
		refused: map[string]string{
			`retry: {delayTiers: []}`:                          "spec.retry.delayTiers: Invalid value: … should have at least 1 items",
			`retry: {delayTiers: ` + tiersOf(17) + `}`:         "spec.retry.delayTiers: Too many: 17: must have at most 16 items",
			`retry: {delayTiers: [{delay: 5m}, {delay: 30s}]}`: "spec.retry.delayTiers: Invalid value: … delays must ascend, each longer than the one before",
			`retry: {delayTiers: [{delay: 60s}, {delay: 1m}]}`: "spec.retry.delayTiers: Invalid value: … delays must ascend, each longer than the one before",
			`retry: {delayTiers: [{queueName: later}]}`:        "spec.retry.delayTiers[0].delay: Required value",
		},
	},
	"retry.delayTiers: Reject has exactly one": {
		accepted: []string{`retry: {strategy: Reject}`, `retry: {strategy: Reject, delayTiers: [{delay: 1s}]}`},
		refused:  map[string]string{`retry: {strategy: Reject, delayTiers: [{delay: 1s}, {delay: 2s}]}`: "spec.retry: Invalid value: … strategy Reject has exactly one delay tier: remove the others, or use strategy Publish"},
	},
	"retry.delayTiers: delay is a duration": durations("retry: {delayTiers: [{delay: %s}]}", "spec.retry.delayTiers[0].delay"),
	"retry.delayTiers: queueName, 1 to 255 bytes": {
		accepted: []string{`retry: {delayTiers: [{delay: 1s, queueName: "ü/% later"}]}`, `retry: {delayTiers: [{delay: 1s, queueName: ` + long255 + `}]}`},
		refused: map[string]string{
			`retry: {delayTiers: [{delay: 1s, queueName: ""}]}`:              "spec.retry.delayTiers[0].queueName: Invalid value: … should be at least 1 chars long",
			`retry: {delayTiers: [{delay: 1s, queueName: amq.later}]}`:       "spec.retry.delayTiers[0].queueName: Invalid value: … " + reserved,
			`retry: {delayTiers: [{delay: 1s, queueName: "a\nb"}]}`:          "spec.retry.delayTiers[0].queueName: Invalid value: … " + lineBreaks,
			`retry: {delayTiers: [{delay: 1s, queueName: ` + long256 + `}]}`: "spec.retry.delayTiers[0].queueName: Too long: may not be more than 255",
			`retry: {delayTiers: [{delay: 1s, queueName: ` + wide260 + `}]}`: "spec.retry.delayTiers[0].queueName: Invalid value: … " + tooManyBytes,
		},
	},
	"retry.delayTiers: routingKey, at most 255 bytes, only with retry.exchange": {
		accepted: []string{
			`retry: {exchange: {name: e}, delayTiers: [{delay: 1s, routingKey: k}, {delay: 2s, routingKey: ""}]}`,
			`retry: {exchange: {name: e}, delayTiers: [{delay: 1s, routingKey: ` + long255 + `}]}`,
		},
		refused: map[string]string{
			`retry: {delayTiers: [{delay: 1s, routingKey: k}]}`:                                    "spec.retry: Invalid value: … routingKey of a delay tier needs retry.exchange: set retry.exchange, or remove routingKey",
			`retry: {delayTiers: [{delay: 1s, routingKey: ""}]}`:                                   "spec.retry: Invalid value: … routingKey of a delay tier needs retry.exchange: set retry.exchange, or remove routingKey",
			`retry: {exchange: {name: e}, delayTiers: [{delay: 1s, routingKey: ` + long256 + `}]}`: "spec.retry.delayTiers[0].routingKey: Too long: may not be more than 255",
			`retry: {exchange: {name: e}, delayTiers: [{delay: 1s, routingKey: ` + wide260 + `}]}`: "spec.retry.delayTiers[0].routingKey: Invalid value: … " + tooManyBytes,
		},
	},
	"retry.delayTiers: keys are unique for the retry exchange": {
		accepted: []string{
			`retry: {exchange: {name: e}, delayTiers: [{delay: 1s, routingKey: a}, {delay: 2s, routingKey: b}, {delay: 3s}]}`,
			`retry: {exchange: {name: e}, delayTiers: [{delay: 1s, routingKey: orders.retry.2s}, {delay: 2s, routingKey: orders.retry.1s}]}`,
			`retry: {exchange: {name: e}, delayTiers: [{delay: 90m}, {delay: 2h, routingKey: orders.retry.90m}]}`,
		},
		refused: map[string]string{
			`retry: {exchange: {name: e}, delayTiers: [{delay: 1s, routingKey: k}, {delay: 2s, routingKey: k}]}`:         sameKey,
			`retry: {exchange: {name: e}, delayTiers: [{delay: 1s, routingKey: ""}, {delay: 2s, routingKey: ""}]}`:       sameKey,
			`retry: {exchange: {name: e}, delayTiers: [{delay: 1s, routingKey: orders.retry.2s}, {delay: 2s}]}`:          sameKey,
			`retry: {exchange: {name: e}, delayTiers: [{delay: 90m}, {delay: 2h, routingKey: orders.retry.1h30m}]}`:      sameKey,
			`retry: {exchange: {name: e}, delayTiers: [{delay: 1s, queueName: later}, {delay: 2s, routingKey: later}]}`:  sameKey,
			`retry: {exchange: {name: e}, delayTiers: [{delay: 1500ms}, {delay: 2s, routingKey: orders.retry.1s500ms}]}`: sameKey,
		},
	},

	"retry.exchange: name, 1 to 255 bytes, not amq.*": {
		accepted: []string{`retry: {exchange: {name: e}}`, `retry: {exchange: {name: ` + long255 + `}}`},
		refused: map[string]string{
			`retry: {exchange: {}}`:                      "spec.retry.exchange.name: Required value",
			`retry: {exchange: {name: ""}}`:              "spec.retry.exchange.name: Invalid value: … should be at least 1 chars long",
			`retry: {exchange: {name: ` + long256 + `}}`: "spec.retry.exchange.name: Too long: may not be more than 255",
			`retry: {exchange: {name: ` + wide260 + `}}`: "spec.retry.exchange.name: Invalid value: … " + tooManyBytes,
			`retry: {exchange: {name: "a\nb"}}`:          "spec.retry.exchange.name: Invalid value: … " + lineBreaks,
			`retry: {exchange: {name: amq.direct}}`:      "spec.retry.exchange: Invalid value: … exchanges that begin with amq. are the broker's own: choose another name",
		},
	},
	"retry.exchange: type": enum("retry: {exchange: {name: e, type: %s}}", "spec.retry.exchange.type", []string{`"direct", "topic"`}, []string{"direct", "topic"}, "fanout"),
	"retry.returnTo": {
		accepted: []string{`retry: {returnTo: {exchange: e}}`, `retry: {returnTo: {exchange: amq.topic, routingKey: ""}}`, `retry: {returnTo: {exchange: ` + long255 + `, routingKey: ` + long255 + `}}`},
		refused: map[string]string{
			`retry: {returnTo: {}}`:                                         "spec.retry.returnTo.exchange: Required value",
			`retry: {returnTo: {exchange: ""}}`:                             "spec.retry.returnTo.exchange: Invalid value: … should be at least 1 chars long",
			`retry: {returnTo: {exchange: ` + long256 + `}}`:                "spec.retry.returnTo.exchange: Too long: may not be more than 255",
			`retry: {returnTo: {exchange: ` + wide260 + `}}`:                "spec.retry.returnTo.exchange: Invalid value: … " + tooManyBytes,
			`retry: {returnTo: {exchange: e, routingKey: ` + long256 + `}}`: "spec.retry.returnTo.routingKey: Too long: may not be more than 255",
		},
	},
	"retry.redeliveryDelay: min and max, min not above max": {
		accepted: []string{`retry: {strategy: Requeue, redeliveryDelay: {min: 1s, max: 1m}}`, `retry: {strategy: Requeue, redeliveryDelay: {min: 60s, max: 1m}}`},
		refused: map[string]string{
			`retry: {strategy: Requeue, redeliveryDelay: {min: 1s}}`:             "spec.retry.redeliveryDelay.max: Required value",
			`retry: {strategy: Requeue, redeliveryDelay: {max: 1s}}`:             "spec.retry.redeliveryDelay.min: Required value",
			`retry: {strategy: Requeue, redeliveryDelay: {min: 61s, max: 1m}}`:   "spec.retry.redeliveryDelay: Invalid value: … min must not be above max",
			`retry: {strategy: Requeue, redeliveryDelay: {min: 1 day, max: 2h}}`: "spec.retry.redeliveryDelay.min: Invalid value: … " + badDuration,
			`retry: {strategy: Requeue, redeliveryDelay: {min: 1s, max: 0s}}`:    "spec.retry.redeliveryDelay: Invalid value: … min must not be above max … and … spec.retry.redeliveryDelay.max: Invalid value: … " + durationEnds,
		},
	},
	"retry.redeliveryDelay: Requeue only": {refused: map[string]string{
		`retry: {redeliveryDelay: {min: 1s, max: 1m}}`:                    "spec.retry: Invalid value: … redeliveryDelay is only for strategy Requeue: use delayTiers, or set strategy to Requeue",
		`retry: {strategy: Reject, redeliveryDelay: {min: 1s, max: 1m}}`:  "spec.retry: Invalid value: … redeliveryDelay is only for strategy Requeue: use delayTiers, or set strategy to Requeue",
		`retry: {strategy: Publish, redeliveryDelay: {min: 1s, max: 1m}}`: "spec.retry: Invalid value: … redeliveryDelay is only for strategy Requeue: use delayTiers, or set strategy to Requeue",
	}},
	"Requeue: no delay tiers, retry exchange or return route": {
		accepted: []string{`retry: {strategy: Requeue, maxAttempts: 3}`},
		refused: map[string]string{
			`retry: {strategy: Requeue, delayTiers: [{delay: 1s}]}`: "spec.retry: Invalid value: … " + noTiers,
			`retry: {strategy: Requeue, exchange: {name: e}}`:       "spec.retry: Invalid value: … " + noTiers,
			`retry: {strategy: Requeue, returnTo: {exchange: e}}`:   "spec.retry: Invalid value: … " + noTiers,
		},
	},
	"Requeue: queue.deliveryLimit is refused": {
		accepted: []string{`{retry: {strategy: Requeue}, queue: {maxLength: 5, messageTTL: 1h}, deadLetter: {queue: {deliveryLimit: 5}}}`},
		refused: map[string]string{
			`{retry: {strategy: Requeue}, queue: {deliveryLimit: 5}}`:             "queue.deliveryLimit follows from retry.maxAttempts with retry.strategy Requeue: remove queue.deliveryLimit and set retry.maxAttempts",
			`{retry: {strategy: Requeue}, queue: {deliveryLimit: BrokerDefault}}`: "queue.deliveryLimit follows from retry.maxAttempts with retry.strategy Requeue: remove queue.deliveryLimit and set retry.maxAttempts",
		},
	},
	"Requeue: needs dead-lettering": {
		accepted: []string{`{retry: {strategy: Requeue}, deadLetter: {policy: Enabled}}`},
		refused: map[string]string{
			`{retry: {strategy: Requeue}, deadLetter: {policy: Disabled}}`: "retry.strategy Requeue needs dead-lettering: with deadLetter.policy Disabled the broker would drop messages that reach the limit; remove deadLetter.policy",
		},
	},

	"Reject by reason takes what straight Reject refuses": {accepted: []string{
		`{retry: {strategy: Reject}, queue: {messageTTL: 1h, deliveryLimit: 5, maxLength: 5, maxLengthBytes: 5}, deadLetterStrategy: AtMostOnce}`,
		`{retry: {strategy: Reject}, queue: {deliveryLimit: BrokerDefault}, deadLetter: {queue: {name: dead}}}`,
		`{retry: {strategy: Reject}, deadLetter: {exchange: {}}, queue: {messageTTL: 1h}}`,
		`{retry: {strategy: Reject}, deadLetter: {exchange: {name: d}}, queue: {messageTTL: 1h, deliveryLimit: 5}}`,
		`{retry: {strategy: Reject}, deadLetter: {exchange: {name: d, type: headers}}, queue: {messageTTL: 1h, deliveryLimit: 5}}`,
	}},
	"deadLetter.exchange: type headers needs Reject without retry.exchange": {refused: map[string]string{
		`deadLetter: {exchange: {type: headers}}`:                                                   headersDLX,
		`{retry: {strategy: Requeue}, deadLetter: {exchange: {type: headers}}}`:                     headersDLX,
		`{retry: {policy: None}, deadLetter: {exchange: {type: headers}}}`:                          headersDLX,
		`{retry: {strategy: Reject, exchange: {name: e}}, deadLetter: {exchange: {type: headers}}}`: headersDLX,
	}},
	"Reject by reason: deadLetter.routingKey is refused": {refused: map[string]string{
		`{retry: {strategy: Reject}, deadLetter: {routingKey: k}}`:                            "spec.deadLetter: Invalid value: … " + fanoutKey,
		`{retry: {strategy: Reject}, deadLetter: {exchange: {type: headers}, routingKey: k}}`: "spec.deadLetter: Invalid value: … " + fanoutKey,
	}},
	"straight Reject takes Unlimited, BrokerDefault (3.x has none), lengths AtLeastOnce": {accepted: []string{
		`{retry: {strategy: Reject, exchange: {name: e}}, queue: {deliveryLimit: Unlimited, maxLength: 5, maxLengthBytes: 5}}`,
		`{retry: {strategy: Reject}, queue: {deliveryLimit: BrokerDefault}, deadLetter: {exchange: {type: fanout}}, deadLetterStrategy: AtMostOnce}`,
		`{retry: {strategy: Reject}, deadLetter: {policy: Disabled}}`,
		`{retry: {strategy: Reject}, deadLetter: {exchange: {name: d, type: direct}, routingKey: k}}`,
	}},
	"straight Reject refuses queue.messageTTL": {refused: map[string]string{
		`{retry: {strategy: Reject, exchange: {name: e}}, queue: {messageTTL: 1h}}`:                   ttlStraight,
		`{retry: {strategy: Reject}, deadLetter: {exchange: {type: topic}}, queue: {messageTTL: 1h}}`: ttlStraight,
		`{retry: {strategy: Reject}, deadLetter: {policy: Disabled}, queue: {messageTTL: 1h}}`:        ttlStraight,
	}},
	"straight Reject refuses queue.maxLength and maxLengthBytes with AtMostOnce": {refused: map[string]string{
		`{retry: {strategy: Reject, exchange: {name: e}}, queue: {maxLength: 5}, deadLetterStrategy: AtMostOnce}`:                         lenStraight,
		`{retry: {strategy: Reject}, deadLetter: {exchange: {type: fanout}}, queue: {maxLengthBytes: 5}, deadLetterStrategy: AtMostOnce}`: lenStraight,
		`{retry: {strategy: Reject}, deadLetter: {policy: Disabled}, queue: {maxLength: 5}, deadLetterStrategy: AtMostOnce}`:              lenStraight,
	}},
	"straight Reject refuses a numeric queue.deliveryLimit": {refused: map[string]string{
		`{retry: {strategy: Reject, exchange: {name: e}}, queue: {deliveryLimit: 5}}`:                    numStraight,
		`{retry: {strategy: Reject}, deadLetter: {exchange: {type: direct}}, queue: {deliveryLimit: 0}}`: numStraight,
		`{retry: {strategy: Reject}, deadLetter: {policy: Disabled}, queue: {deliveryLimit: 20}}`:        numStraight,
	}},

	"deadLetter.policy": enum("deadLetter: {policy: %s}", "spec.deadLetter.policy", []string{`"Enabled", "Disabled"`}, []string{"Enabled", "Disabled"}, "Maybe"),
	"deadLetter.policy Disabled: other deadLetter fields are refused": {
		accepted: []string{`deadLetter: {policy: Disabled}`, `{retry: {policy: None}, deadLetter: {policy: Disabled}}`},
		refused: map[string]string{
			`deadLetter: {policy: Disabled, exchange: {}}`:                            "spec.deadLetter: Invalid value: … " + noDead,
			`deadLetter: {policy: Disabled, queue: {}}`:                               "spec.deadLetter: Invalid value: … " + noDead,
			`deadLetter: {policy: Disabled, exchange: {type: direct}, routingKey: k}`: "spec.deadLetter: Invalid value: … " + noDead,
		},
	},
	"deadLetter.exchange: name, 1 to 255 bytes, not amq.*": {
		accepted: []string{`deadLetter: {exchange: {name: d}}`, `deadLetter: {exchange: {name: ` + long255 + `}}`},
		refused: map[string]string{
			`deadLetter: {exchange: {name: ""}}`:              "spec.deadLetter.exchange.name: Invalid value: … should be at least 1 chars long",
			`deadLetter: {exchange: {name: ` + long256 + `}}`: "spec.deadLetter.exchange.name: Too long: may not be more than 255",
			`deadLetter: {exchange: {name: ` + wide260 + `}}`: "spec.deadLetter.exchange.name: Invalid value: … " + tooManyBytes,
			`deadLetter: {exchange: {name: amq.fanout}}`:      "spec.deadLetter.exchange: Invalid value: … exchanges that begin with amq. are the broker's own: choose another name",
		},
	},
	"deadLetter.exchange: type": enum("deadLetter: {exchange: {type: %s}}", "spec.deadLetter.exchange.type", []string{`"fanout", "direct", "topic", "headers"`}, []string{"fanout", "direct", "topic"}, "x-delayed-message"),
	"deadLetter.routingKey: refused for fanout": {
		accepted: []string{`deadLetter: {exchange: {type: direct}, routingKey: k}`, `deadLetter: {exchange: {type: topic}, routingKey: ""}`, `deadLetter: {exchange: {type: topic}, routingKey: ` + long255 + `}`},
		refused: map[string]string{
			`deadLetter: {routingKey: k}`:                                        "spec.deadLetter: Invalid value: … " + fanoutKey,
			`deadLetter: {routingKey: ""}`:                                       "spec.deadLetter: Invalid value: … " + fanoutKey,
			`deadLetter: {exchange: {name: d}, routingKey: k}`:                   "spec.deadLetter: Invalid value: … " + fanoutKey,
			`deadLetter: {exchange: {type: fanout}, routingKey: k}`:              "spec.deadLetter: Invalid value: … " + fanoutKey,
			`deadLetter: {exchange: {type: topic}, routingKey: ` + long256 + `}`: "spec.deadLetter.routingKey: Too long: may not be more than 255",
		},
	},
	"deadLetter.queue: name, 1 to 255 bytes, not amq.*": {
		accepted: []string{`deadLetter: {queue: {name: dead}}`, `deadLetter: {queue: {name: ` + long255 + `}}`},
		refused: map[string]string{
			`deadLetter: {queue: {name: ""}}`:              "spec.deadLetter.queue.name: Invalid value: … should be at least 1 chars long",
			`deadLetter: {queue: {name: amq.dead}}`:        "spec.deadLetter.queue.name: Invalid value: … " + reserved,
			`deadLetter: {queue: {name: ` + long256 + `}}`: "spec.deadLetter.queue.name: Too long: may not be more than 255",
			`deadLetter: {queue: {name: ` + wide260 + `}}`: "spec.deadLetter.queue.name: Invalid value: … " + tooManyBytes,
			`deadLetter: {queue: {name: "a\rb"}}`:          "spec.deadLetter.queue.name: Invalid value: … " + lineBreaks,
		},
	},
	"sharedWith: names of namespaces": {
		accepted: []string{
			`deadLetter: {queue: {sharedWith: [shop, bank-2]}, exchange: {sharedWith: [shop]}}`,
			`{retry: {exchange: {name: again, sharedWith: [shop]}}}`,
			`{retry: {strategy: Reject}, deadLetter: {exchange: {sharedWith: [shop]}}, queue: {messageTTL: 1h}}`,
		},
		refused: map[string]string{
			`deadLetter: {queue: {sharedWith: [shop, shop]}}`:     "spec.deadLetter.queue.sharedWith[1]: Duplicate value",
			`deadLetter: {queue: {sharedWith: [Shop]}}`:           "spec.deadLetter.queue.sharedWith[0]: Invalid value: … should match",
			`deadLetter: {exchange: {sharedWith: [""]}}`:          "spec.deadLetter.exchange.sharedWith[0]: Invalid value: … should be at least 1 chars long",
			`retry: {exchange: {name: again, sharedWith: ["*"]}}`: "spec.retry.exchange.sharedWith[0]: Invalid value: … should match",
		},
	},
	"deadLetter.queue.messageTTL": durations("deadLetter: {queue: {messageTTL: %s}}", "spec.deadLetter.queue.messageTTL"),
	"deadLetter.queue.deliveryLimit": limits("deadLetter: {queue: {deliveryLimit: %s}}", "spec.deadLetter.queue", badLimit,
		[]string{"0", "2147483647", "Unlimited", "BrokerDefault"}, []string{"-1", "3000000000", "20x"}),
	"deadLetter.queue.maxLength":        numbers("deadLetter: {queue: {maxLength: %s}}", "spec.deadLetter.queue.maxLength", 0),
	"deadLetter.queue.maxLengthBytes":   limits("deadLetter: {queue: {maxLengthBytes: %s}}", "spec.deadLetter.queue", badBytes, []string{"1Gi"}, []string{"-1", `"1.5"`}),
	"deadLetter.queue.overflow":         enum("deadLetter: {queue: {overflow: %s}}", "spec.deadLetter.queue.overflow", []string{`"RejectPublish", "DropHead"`}, []string{"RejectPublish", "DropHead"}, "DropTail"),
	"deadLetter.queue.initialGroupSize": numbers("deadLetter: {queue: {initialGroupSize: %s}}", "spec.deadLetter.queue.initialGroupSize", 1),
	"deadLetter.queue.leaderLocator":    enum("deadLetter: {queue: {leaderLocator: %s}}", "spec.deadLetter.queue.leaderLocator", []string{`"Balanced", "ClientLocal"`}, []string{"Balanced"}, "Random"),
	"deadLetter.queue.consumerTimeout":  durations("deadLetter: {queue: {consumerTimeout: %s}}", "spec.deadLetter.queue.consumerTimeout"),

	"deadLetterStrategy": enum("deadLetterStrategy: %s", "spec.deadLetterStrategy", []string{`"AtLeastOnce", "AtMostOnce"`}, []string{"AtLeastOnce", "AtMostOnce"}, "ExactlyOnce"),
	"driftPolicy":        enum("driftPolicy: %s", "spec.driftPolicy", []string{`"Correct", "Report"`}, []string{"Correct", "Report"}, "Ignore"),
	"recreatePolicy":     enum("recreatePolicy: %s", "spec.recreatePolicy", []string{`"Manual", "WhenEmpty", "Migrate"`}, []string{"Manual", "WhenEmpty", "Migrate"}, "Automatic"),
	"recreation belongs to a recreatePolicy that recreates": {
		accepted: []string{
			`{recreatePolicy: WhenEmpty, recreation: {settleTimeout: 10s, publishersPastBindings: Accept}}`,
			`{recreatePolicy: Migrate, recreation: {approval: Automatic, maxReadyMessages: 0, settleTimeout: 10m, publishersPastBindings: Refuse}}`,
			`{recreatePolicy: Migrate, recreation: {approval: Required}}`,
		},
		refused: map[string]string{
			`{recreation: {}}`: recreatesNothing,
			`{recreatePolicy: Manual, recreation: {settleTimeout: 1m}}`:             recreatesNothing,
			`{recreatePolicy: WhenEmpty, recreation: {approval: Automatic}}`:        needsNoApproval,
			`{recreatePolicy: WhenEmpty, recreation: {maxReadyMessages: 5}}`:        needsNoApproval,
			`{recreatePolicy: Migrate, recreation: {maxReadyMessages: -1}}`:         "spec.recreation.maxReadyMessages: Invalid value: … should be greater than or equal to 0",
			`{recreatePolicy: Migrate, recreation: {settleTimeout: 9s}}`:            "spec.recreation.settleTimeout: Invalid value: … must be between 10s and 10m",
			`{recreatePolicy: Migrate, recreation: {settleTimeout: 1h}}`:            "spec.recreation.settleTimeout: Invalid value: … must be between 10s and 10m",
			`{recreatePolicy: Migrate, recreation: {approval: Never}}`:              `spec.recreation.approval: Unsupported value: "Never": supported values: "Required", "Automatic"`,
			`{recreatePolicy: Migrate, recreation: {publishersPastBindings: Drop}}`: `spec.recreation.publishersPastBindings: Unsupported value: "Drop": supported values: "Refuse", "Accept"`,
		},
	},
	"deletionPolicy": enum("deletionPolicy: %s", "spec.deletionPolicy", []string{`"DeleteIfEmpty", "Retain", "Delete"`}, []string{"DeleteIfEmpty", "Retain", "Delete"}, "Orphan"),
	"suspend":        {accepted: []string{`suspend: true`, `suspend: false`}, refused: map[string]string{`suspend: "true"`: "spec.suspend: Invalid value: … must be of type boolean"}},

	"queue names differ": {
		accepted: []string{
			`{deadLetter: {queue: {name: orders2}}, retry: {delayTiers: [{delay: 1s, queueName: a}, {delay: 2s, queueName: b}]}}`,
			`retry: {delayTiers: [{delay: 1s, queueName: orders.retry.2s}, {delay: 2s, queueName: orders.retry.1s}]}`,
			`{deadLetter: {policy: Disabled}, retry: {delayTiers: [{delay: 1s, queueName: orders.dlq}]}}`,
			`{deadLetter: {queue: {name: orders.retry.30s}}, retry: {policy: None}}`,
			`{deadLetter: {queue: {name: orders.retry.30s}}, retry: {strategy: Requeue}}`,
			`{deadLetter: {queue: {name: orders.retry.5m}}, retry: {strategy: Reject}}`,
			`{deadLetter: {queue: {name: orders.retry.30s}}, retry: {delayTiers: [{delay: 1s}]}}`,
			`{deadLetter: {queue: {name: orders.retry.30s}}, retry: {delayTiers: [{delay: 30s, queueName: a}]}}`,
			`{deadLetter: {queue: {name: orders.retry.}}}`, `{deadLetter: {queue: {name: orders.retry.x}}, retry: {delayTiers: [{delay: 30s}]}}`,
			// the compact form of 90m is 1h30m:
			`{deadLetter: {queue: {name: orders.retry.90m}}, retry: {delayTiers: [{delay: 90m}]}}`,
			`retry: {delayTiers: [{delay: 90s}, {delay: 2h, queueName: orders.retry.90s}]}`,
			`retry: {delayTiers: [{delay: 1h}, {delay: 2h, queueName: orders.retry.60m}]}`,
		},
		refused: map[string]string{
			`deadLetter: {queue: {name: orders}}`:                                                           "spec.deadLetter.queue.name: Invalid value: … the dead-letter queue and the main queue have the same name: choose another deadLetter.queue.name",
			`{queue: {name: q}, deadLetter: {queue: {name: q}}}`:                                            "spec.deadLetter.queue.name: Invalid value: … the dead-letter queue and the main queue have the same name: choose another deadLetter.queue.name",
			`retry: {delayTiers: [{delay: 1s, queueName: orders}]}`:                                         "spec.retry.delayTiers: Invalid value: … a delay tier has the name of the main queue or the dead-letter queue: choose another queueName",
			`retry: {delayTiers: [{delay: 1s, queueName: orders.dlq}]}`:                                     "spec.retry.delayTiers: Invalid value: … a delay tier has the name of the main queue or the dead-letter queue: choose another queueName",
			`{deadLetter: {queue: {name: d}}, retry: {delayTiers: [{delay: 1s, queueName: d}]}}`:            "spec.retry.delayTiers: Invalid value: … a delay tier has the name of the main queue or the dead-letter queue: choose another queueName",
			`retry: {delayTiers: [{delay: 1s, queueName: a}, {delay: 2s, queueName: a}]}`:                   "spec.retry.delayTiers: Invalid value: … " + sameQueue,
			`retry: {delayTiers: [{delay: 1s, queueName: orders.retry.2s}, {delay: 2s}]}`:                   "spec.retry.delayTiers: Invalid value: … " + sameQueue,
			`retry: {delayTiers: [{delay: 90m}, {delay: 2h, queueName: orders.retry.1h30m}]}`:               "spec.retry.delayTiers: Invalid value: … " + sameQueue,
			`retry: {delayTiers: [{delay: 24h0m61s5ms}, {delay: 25h, queueName: orders.retry.24h1m1s5ms}]}`: "spec.retry.delayTiers: Invalid value: … " + sameQueue,
			`deadLetter: {queue: {name: orders.retry.30s}}`:                                                 "spec.deadLetter.queue.name: Invalid value: … the dead-letter queue has the name of a delay tier: choose another deadLetter.queue.name",
			`deadLetter: {queue: {name: orders.retry.5m}}`:                                                  "spec.deadLetter.queue.name: Invalid value: … the dead-letter queue has the name of a delay tier: choose another deadLetter.queue.name",
			`deadLetter: {queue: {name: orders.retry.30m}}`:                                                 "spec.deadLetter.queue.name: Invalid value: … the dead-letter queue has the name of a delay tier: choose another deadLetter.queue.name",
			`{deadLetter: {queue: {name: orders.retry.30s}}, retry: {strategy: Reject}}`:                    "spec.deadLetter.queue.name: Invalid value: … the dead-letter queue has the name of a delay tier: choose another deadLetter.queue.name",
			`{deadLetter: {queue: {name: orders.retry.1h30m}}, retry: {delayTiers: [{delay: 90m}]}}`:        "spec.deadLetter.queue.name: Invalid value: … the dead-letter queue has the name of a delay tier: choose another deadLetter.queue.name",
		},
	},
	"exchange names differ": {
		accepted: []string{
			`{bindings: [{exchange: {name: a}}, {exchange: {name: a}}], retry: {exchange: {name: b}}, deadLetter: {exchange: {name: c}}}`,
			`{bindings: [{exchange: {name: orders.dlx}}], deadLetter: {policy: Disabled}}`,
			`{bindings: [{exchange: {name: orders.dlx}}], deadLetter: {exchange: {name: c}}}`,
			`{bindings: [{exchange: {name: a}}], retry: {returnTo: {exchange: a}}}`,
		},
		refused: map[string]string{
			`{retry: {exchange: {name: c}}, deadLetter: {exchange: {name: c}}}`:      "spec.deadLetter: Invalid value: … " + sameExchange,
			`{retry: {exchange: {name: orders.dlx}}}`:                                "spec.deadLetter: Invalid value: … " + sameExchange,
			`{bindings: [{exchange: {name: c}}], deadLetter: {exchange: {name: c}}}`: "spec.deadLetter: Invalid value: … " + sameExchange,
			`{bindings: [{exchange: {name: orders.dlx}}]}`:                           "spec.deadLetter: Invalid value: … " + sameExchange,
			`{bindings: [{exchange: {name: q.dlx}}], queue: {name: q}}`:              "spec.deadLetter: Invalid value: … " + sameExchange,
			`{bindings: [{exchange: {name: b}}], retry: {exchange: {name: b}}}`:      "spec.retry.exchange: Invalid value: … the retry exchange must differ from the exchanges of bindings: choose another name",
		},
	},
	"names that follow from the main queue's fit into 255 bytes": {
		accepted: []string{
			`{queue: {name: ` + long255[:251] + `}, retry: {policy: None}}`,
			`{queue: {name: ` + long255[:245] + `}}`, // .retry.30s and .retry.30m are ten bytes
			`{queue: {name: ` + long255[:245] + `}, retry: {strategy: Reject}}`,
			`{queue: {name: ` + long255[:251] + `}, retry: {strategy: Requeue}}`,
			`{queue: {name: ` + long255 + `}, retry: {delayTiers: [{delay: 1s, queueName: t}]}, deadLetter: {exchange: {name: d}, queue: {name: d}}}`,
			`{queue: {name: ` + long255[:246] + `}, retry: {delayTiers: [{delay: 1s}]}}`,
			`{queue: {name: ` + long255[:232] + `}, retry: {delayTiers: [{delay: 1000h59m59s999ms}]}}`,
			`{queue: {name: ` + long255[:245] + `}, retry: {delayTiers: [{delay: 900s}]}}`, // .retry.15m
		},
		refused: map[string]string{
			`{queue: {name: ` + long255[:252] + `}, retry: {policy: None}}`:                                        "spec.deadLetter: Invalid value: … " + derived,
			`{queue: {name: ` + long255[:252] + `}, retry: {policy: None}, deadLetter: {exchange: {name: d}}}`:     "spec.deadLetter: Invalid value: … " + derived,
			`{queue: {name: ` + long255[:252] + `}, retry: {policy: None}, deadLetter: {queue: {name: d}}}`:        "spec.deadLetter: Invalid value: … " + derived,
			`{queue: {name: ` + strings.Repeat("ü", 126) + `}, retry: {policy: None}}`:                             "spec.deadLetter: Invalid value: … " + derived,
			`{queue: {name: ` + long255[:246] + `}}`:                                                               "spec.retry: Invalid value: … " + derivedTier,
			`{queue: {name: ` + long255[:246] + `}, retry: {strategy: Reject}}`:                                    "spec.retry: Invalid value: … " + derivedTier,
			`{queue: {name: ` + long255[:247] + `}, retry: {delayTiers: [{delay: 1s}]}}`:                           "spec.retry: Invalid value: … " + derivedTier,
			`{queue: {name: ` + long255[:233] + `}, retry: {delayTiers: [{delay: 1000h59m59s999ms}]}}`:             "spec.retry: Invalid value: … " + derivedTier,
			`{queue: {name: ` + long255[:246] + `}, retry: {delayTiers: [{delay: 900s}]}}`:                         "spec.retry: Invalid value: … " + derivedTier,
			`{queue: {name: ` + long255 + `}, retry: {delayTiers: [{delay: 1s}]}, deadLetter: {policy: Disabled}}`: "spec.retry: Invalid value: … " + derivedTier,
		},
	},
	"also where they follow from the resource's": {
		name:     long255[:253],
		accepted: []string{`queue: {name: orders}`, `{retry: {policy: None}, deadLetter: {policy: Disabled}}`},
		refused:  map[string]string{`{retry: {policy: None}}`: "spec.deadLetter: Invalid value: … " + derived},
	},
}

var brokerConnectionRules = map[string]rule{
	"exactly one of secretRef and clusterRef": {
		kind:     "BrokerConnection",
		accepted: []string{`secretRef: {name: s}`, `clusterRef: {name: c}`},
		refused: map[string]string{
			`{}`: "spec: Invalid value: … " + oneSource,
			`{secretRef: {name: s}, clusterRef: {name: c}}`: "spec: Invalid value: … " + oneSource,
		},
	},
	"secretRef.name, clusterRef.name: a name": {
		kind:     "BrokerConnection",
		accepted: []string{`secretRef: {name: ` + long254[:253] + `}`, `clusterRef: {name: ` + long254[:253] + `}`},
		refused: map[string]string{
			`secretRef: {}`:                       "spec.secretRef.name: Required value",
			`secretRef: {name: ""}`:               "spec.secretRef.name: Invalid value: … should be at least 1 chars long",
			`secretRef: {name: ` + long254 + `}`:  "spec.secretRef.name: Too long: may not be more than 253",
			`clusterRef: {}`:                      "spec.clusterRef.name: Required value",
			`clusterRef: {name: ""}`:              "spec.clusterRef.name: Invalid value: … should be at least 1 chars long",
			`clusterRef: {name: ` + long254 + `}`: "spec.clusterRef.name: Too long: may not be more than 253",
		},
	},
	"amqpURI: amqp or amqps, no user or password": uris("amqpURI", "must be amqp://host:port or amqps://host:port",
		[]string{"amqp://rabbit", "amqps://rabbit.example.com:5671", "amqp://[::1]:5672", "amqp://h/"},
		[]string{"http://rabbit", "rabbit:5672", "amqp://", "amqp:///vhost"}, "amqp"),
	"managementURI: http or https, a path prefix is honoured, no user or password": uris("managementURI", "must be http://host:port or https://host:port",
		[]string{"http://rabbit:15672", "https://rabbit.example.com/prefix/of%2Fpath", "http://[::1]:15672"},
		[]string{"amqp://rabbit", "rabbit:15672", "https://", "ftp://rabbit"}, "https"),
	"vhost: 1 to 255 bytes": {
		kind:     "BrokerConnection",
		accepted: []string{`{secretRef: {name: s}, vhost: /}`, `{secretRef: {name: s}, vhost: "ü/% "}`, `{secretRef: {name: s}, vhost: ` + long255 + `}`},
		refused: map[string]string{
			`{secretRef: {name: s}, vhost: ""}`:              "spec.vhost: Invalid value: … should be at least 1 chars long",
			`{secretRef: {name: s}, vhost: ` + long256 + `}`: "spec.vhost: Too long: may not be more than 255",
			`{secretRef: {name: s}, vhost: ` + wide260 + `}`: "spec.vhost: Invalid value: … " + tooManyBytes,
		},
	},
	"vhost: immutable": {
		kind: "BrokerConnection", from: `{secretRef: {name: s}}`,
		accepted: []string{`{secretRef: {name: s}, vhost: /}`, `{clusterRef: {name: c}}`, `{secretRef: {name: t}, amqpURI: "amqp://h", suspend: true}`},
		refused:  map[string]string{`{secretRef: {name: s}, vhost: other}`: "spec.vhost: Invalid value: … vhost cannot be changed: create another BrokerConnection for another vhost"},
	},
	"vhost: immutable once given": {
		kind: "BrokerConnection", from: `{secretRef: {name: s}, vhost: other}`,
		accepted: []string{`{secretRef: {name: t}, vhost: other}`},
		refused: map[string]string{
			`{secretRef: {name: s}}`:           "spec.vhost: Invalid value: … vhost cannot be changed: create another BrokerConnection for another vhost",
			`{secretRef: {name: s}, vhost: /}`: "spec.vhost: Invalid value: … vhost cannot be changed: create another BrokerConnection for another vhost",
		},
	},
	"tls: references and serverName": {
		kind: "BrokerConnection",
		accepted: []string{
			`{secretRef: {name: s}, tls: {}}`, `{secretRef: {name: s}, tls: {caSecretRef: {name: ca}, clientSecretRef: {name: c}, serverName: rabbit.example.com}}`,
			`{secretRef: {name: s}, tls: {insecureSkipVerify: true}}`, `{secretRef: {name: s}, tls: {insecureSkipVerify: false, caSecretRef: {name: ca}}}`,
		},
		refused: map[string]string{
			`{secretRef: {name: s}, tls: {caSecretRef: {}}}`:                                   "spec.tls.caSecretRef.name: Required value",
			`{secretRef: {name: s}, tls: {clientSecretRef: {name: ""}}}`:                       "spec.tls.clientSecretRef.name: Invalid value: … should be at least 1 chars long",
			`{secretRef: {name: s}, tls: {serverName: ""}}`:                                    "spec.tls.serverName: Invalid value: … should be at least 1 chars long",
			`{secretRef: {name: s}, tls: {serverName: ` + long254 + `}}`:                       "spec.tls.serverName: Too long: may not be more than 253",
			`{secretRef: {name: s}, tls: {insecureSkipVerify: true, caSecretRef: {name: ca}}}`: "spec.tls: Invalid value: … insecureSkipVerify makes caSecretRef meaningless: remove one of them",
		},
	},
	"resyncInterval: a duration": {
		kind:     "BrokerConnection",
		accepted: []string{`{secretRef: {name: s}, resyncInterval: 1s}`, `{secretRef: {name: s}, resyncInterval: 1000ms}`, `{secretRef: {name: s}, resyncInterval: 1h30m}`},
		refused: map[string]string{
			`{secretRef: {name: s}, resyncInterval: 999ms}`: "spec.resyncInterval: Invalid value: … must be at least 1s",
			`{secretRef: {name: s}, resyncInterval: 1 day}`: "spec.resyncInterval: Invalid value: … " + badDuration,
			`{secretRef: {name: s}, resyncInterval: ""}`:    "spec.resyncInterval: Invalid value: … " + badDuration,
			`{secretRef: {name: s}, resyncInterval: 1.5s}`:  "spec.resyncInterval: Invalid value: … " + badDuration,
			`{secretRef: {name: s}, resyncInterval: 9999h}`: "spec.resyncInterval: Invalid value: … " + durationEnds,
		},
	},
	"suspend": {
		kind:     "BrokerConnection",
		accepted: []string{`{secretRef: {name: s}, suspend: true}`},
		refused:  map[string]string{`{secretRef: {name: s}, suspend: 1}`: "spec.suspend: Invalid value: … must be of type boolean"},
	},
}

func TestValidation(t *testing.T) {
	t.Parallel()
	for _, rules := range []map[string]rule{consumerQueueRules, brokerConnectionRules} {
		for _, sentence := range slices.Sorted(maps.Keys(rules)) {
			t.Run(sentence, func(t *testing.T) {
				t.Parallel()
				rules[sentence].check(t)
			})
		}
	}
}

func (r rule) check(t *testing.T) {
	kind, name := r.kind, r.name
	if kind == "" {
		kind = "ConsumerQueue"
	}
	if name == "" {
		name = "orders"
	}
	send := func(spec string) (*unstructured.Unstructured, error) {
		sent := object(t, kind, name, spec)
		return sent, kube.Create(t.Context(), sent, client.DryRunAll)
	}
	if r.from != "" {
		send = updater(t, kind, name, r.from)
	}
	for _, spec := range r.accepted {
		stored, err := send(spec)
		if err != nil {
			t.Errorf("refused: %s\n%v", spec, err)
			continue
		}
		wantDecodes(t, stored)
	}
	for _, spec := range slices.Sorted(maps.Keys(r.refused)) {
		_, err := send(spec)
		t.Run(spec, func(t *testing.T) { wantRefused(t, err, r.refused[spec]) })
	}
}

// updater creates an object in its own namespace, and changes it.
func updater(t *testing.T, kind, name, from string) func(spec string) (*unstructured.Unstructured, error) {
	t.Helper()
	space := namespace(t)
	before := object(t, kind, name, from)
	before.SetNamespace(space)
	if err := kube.Create(t.Context(), before); err != nil {
		t.Fatalf("create: %v", err)
	}
	return func(spec string) (*unstructured.Unstructured, error) {
		after := object(t, kind, name, spec)
		after.SetNamespace(space)
		after.SetResourceVersion(before.GetResourceVersion())
		return after, kube.Update(t.Context(), after, client.DryRunAll)
	}
}

// durations are the rules of every field of type Duration.
func durations(spec, path string) rule {
	rules := rule{refused: map[string]string{}}
	for _, good := range []string{"1ms", "90s", "1h30m", "90m", "24h", "0h0m1s", "1h2m3s4ms", "1193h2m47s295ms", "4294967295ms", "000001h", "14d", "1d12h", "49d", "0d1ms"} {
		rules.accepted = append(rules.accepted, fmt.Sprintf(spec, good))
	}
	for bad, message := range map[string]string{
		`"1 day"`: badDuration, "1.5s": badDuration, "-1s": badDuration, "30": "must be of type string", `"30"`: badDuration, "5m1h": badDuration, "1us": badDuration,
		"1h2d": badDuration, "d": badDuration, "1w": badDuration, "50d": durationEnds, "9999d999999h": durationEnds, "P1D": badDuration, "1h 30m": badDuration, "1H": badDuration, "3000000000": "must be of type string",
		`""`: badDuration, "0s": durationEnds, "0ms": durationEnds, "4294967296ms": durationEnds, "999999h": durationEnds,
		`"000001h0000001m000000001s000000000001ms"`: "may not be more than 32",
	} {
		rules.refused[fmt.Sprintf(spec, bad)] = path + ": … " + message
	}
	return rules
}

func numbers(spec, path string, least int) rule {
	return rule{
		accepted: []string{fmt.Sprintf(spec, fmt.Sprint(least)), fmt.Sprintf(spec, "7"), fmt.Sprintf(spec, "2147483647")},
		refused: map[string]string{
			fmt.Sprintf(spec, fmt.Sprint(least-1)): fmt.Sprintf("%s: Invalid value: … should be greater than or equal to %d", path, least),
			fmt.Sprintf(spec, "2147483648"):        path + ": Invalid value: … should be less than or equal to 2147483647",
			fmt.Sprintf(spec, "3000000000"):        path + ": Invalid value: … should be less than or equal to 2147483647",
			fmt.Sprintf(spec, "1.5"):               path + ": Invalid value: … must be of type integer",
			fmt.Sprintf(spec, `"5"`):               path + ": Invalid value: … must be of type integer",
		},
	}
}

func limits(spec, path, message string, good, bad []string) rule {
	rules := rule{refused: map[string]string{}}
	for _, value := range good {
		rules.accepted = append(rules.accepted, fmt.Sprintf(spec, value))
	}
	for _, value := range bad {
		rules.refused[fmt.Sprintf(spec, value)] = path + " … Invalid value: … " + message
	}
	return rules
}

func enum(spec, path string, supported, good []string, bad string) rule {
	rules := rule{refused: map[string]string{}}
	for _, value := range good {
		rules.accepted = append(rules.accepted, fmt.Sprintf(spec, value))
	}
	rules.refused[fmt.Sprintf(spec, bad)] = fmt.Sprintf("%s: Unsupported value: %q: supported values: %s", path, bad, supported[0])
	rules.refused[fmt.Sprintf(spec, `""`)] = fmt.Sprintf("%s: Unsupported value: %q: supported values: %s", path, "", supported[0])
	return rules
}

func uris(field, message string, good, bad []string, scheme string) rule {
	write := func(uri string) string { return fmt.Sprintf(`{secretRef: {name: s}, %s: %q}`, field, uri) }
	rules := rule{kind: "BrokerConnection", refused: map[string]string{
		write(""): "spec." + field + ": Invalid value: … should be at least 1 chars long",
		write(scheme + "://user:password@rabbit"):         "spec." + field + ": Invalid value: … " + noPassword,
		write(scheme + "://user@rabbit"):                  "spec." + field + ": Invalid value: … " + noPassword,
		write(scheme + "://" + strings.Repeat("a", 1025)): "spec." + field + ": Too long: may not be more than 1024",
	}}
	for _, uri := range good {
		rules.accepted = append(rules.accepted, write(uri))
	}
	for _, uri := range bad {
		rules.refused[write(uri)] = "spec." + field + ": Invalid value: … " + message
	}
	return rules
}

func refusedArguments() map[string]string {
	refused := map[string]string{}
	for _, argument := range []string{
		"x-message-ttl", "x-delivery-limit", "x-max-length", "x-max-length-bytes", "x-overflow", "x-single-active-consumer",
		"x-quorum-initial-group-size", "x-queue-leader-locator", "x-consumer-timeout",
	} {
		refused[`queue: {arguments: {`+argument+`: 1}}`] = "spec.queue.arguments: Invalid value: … " + ownField
	}
	for _, argument := range []string{
		"x-queue-type", "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-dead-letter-strategy", "x-dead-letter-new",
		"x-delayed-retry-type", "x-delayed-retry-min", "x-delayed-retry-max",
	} {
		refused[`queue: {arguments: {`+argument+`: a}}`] = "spec.queue.arguments: Invalid value: … " + followed
	}
	refused[`queue: {arguments: {x-expires: 5}}`] = "spec.queue.arguments: Invalid value: … x-expires makes the broker delete an unused queue with its messages: remove x-expires"
	refused[`queue: {arguments: {x-max-priority: 5}}`] = "spec.queue.arguments: Invalid value: … quorum queues do not take x-max-priority: remove it"
	return refused
}

// many is a list, or a map if the item has a key.
func many(count int, item string) string {
	items := make([]string, count)
	for i := range items {
		items[i] = fmt.Sprintf(item, i)
	}
	if strings.HasSuffix(item, "%d: 1") {
		return "{" + strings.Join(items, ", ") + "}"
	}
	return "[" + strings.Join(items, ", ") + "]"
}

func tiersOf(count int) string {
	items := make([]string, count)
	for i := range items {
		items[i] = fmt.Sprintf("{delay: %ds}", i+1)
	}
	return "[" + strings.Join(items, ", ") + "]"
}
