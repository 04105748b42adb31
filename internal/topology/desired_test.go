package topology_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// Fragments of specs and topologies that many cases share. alone is only a main queue.
const (
	defaults = `
		exchange orders.dlx: DeadLetter, fanout
		queue orders: Main, x-dead-letter-exchange=orders.dlx, x-dead-letter-strategy=at-least-once, x-overflow=reject-publish
		queue orders.retry.30s: DelayTier, x-dead-letter-exchange=, x-dead-letter-routing-key=orders, x-dead-letter-strategy=at-least-once, x-message-ttl=30000, x-overflow=reject-publish
		queue orders.retry.5m: DelayTier, x-dead-letter-exchange=, x-dead-letter-routing-key=orders, x-dead-letter-strategy=at-least-once, x-message-ttl=300000, x-overflow=reject-publish
		queue orders.retry.30m: DelayTier, x-dead-letter-exchange=, x-dead-letter-routing-key=orders, x-dead-letter-strategy=at-least-once, x-message-ttl=1800000, x-overflow=reject-publish
		queue orders.dlq: DeadLetter, x-delivery-limit=-1
		binding orders.dlx -> orders.dlq: DeadLetter, ""`
	byReasonBindings = `
		binding orders.dlx -> orders.retry.30s: DelayTier, "" {"x-last-death-reason":"rejected","x-match":"all-with-x"}
		binding orders.dlx -> orders.dlq: DeadLetter, "" {"x-last-death-reason":"delivery_limit","x-match":"all-with-x"}
		binding orders.dlx -> orders.dlq: DeadLetter, "" {"x-last-death-reason":"expired","x-match":"all-with-x"}
		binding orders.dlx -> orders.dlq: DeadLetter, "" {"x-last-death-reason":"maxlen","x-match":"all-with-x"}`
	deadLettering = "x-dead-letter-strategy=at-least-once"
	deadQueue     = "queue orders.dlq: DeadLetter, x-delivery-limit=-1"
)

// Every queue is a durable quorum queue; names, tiers, delivery limits and at-least-once dead-lettering have the defaults of
// docs/concepts.md. Each case is the whole topology, on RabbitMQ 4.3 unless it says otherwise.
func TestDesired(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		on   vhost.Version
		spec string
		want string
	}{
		"an empty spec is a full topology":       {spec: `{}`, want: defaults},
		"defaults may be spelled out":            {spec: "{queue: {name: orders}, retry: {policy: MaxAttempts, strategy: Publish, maxAttempts: 4, delayTiers: [{delay: 30s}, {delay: 5m}, {delay: 30m}]}, deadLetter: {policy: Enabled, exchange: {name: orders.dlx, type: fanout}, queue: {name: orders.dlq}}, deadLetterStrategy: AtLeastOnce}", want: defaults},
		"empty objects are as good as none":      {spec: `{queue: {}, bindings: [], retry: {}, deadLetter: {queue: {}, exchange: {}}}`, want: defaults},
		"no retry and no dead-lettering":         {spec: topologytest.Alone, want: `queue orders: Main, x-delivery-limit=-1`},
		"no retry and no dead-lettering on 3.13": {on: topologytest.V313, spec: topologytest.Alone, want: `queue orders: Main`},

		// queue
		"queue.name": {spec: topologytest.Alone + `queue: {name: a/b c%2F.ü}`, want: `queue a/b c%2F.ü: Main, x-delivery-limit=-1`},
		"names follow from queue.name": {
			spec: `{queue: {name: a/b c%2F.ü}, retry: {delayTiers: [{delay: 1s}]}}`,
			want: `
				exchange a/b c%2F.ü.dlx: DeadLetter, fanout
				queue a/b c%2F.ü: Main, x-dead-letter-exchange=a/b c%2F.ü.dlx, x-dead-letter-strategy=at-least-once, x-overflow=reject-publish
				queue a/b c%2F.ü.retry.1s: DelayTier, x-dead-letter-exchange=, x-dead-letter-routing-key=a/b c%2F.ü, x-dead-letter-strategy=at-least-once, x-message-ttl=1000, x-overflow=reject-publish
				queue a/b c%2F.ü.dlq: DeadLetter, x-delivery-limit=-1
				binding a/b c%2F.ü.dlx -> a/b c%2F.ü.dlq: DeadLetter, ""`,
		},
		"queue.messageTTL in days":                 {spec: topologytest.Alone + `queue: {messageTTL: 14d}`, want: `queue orders: Main, x-delivery-limit=-1, x-message-ttl=1209600000`},
		"queue.messageTTL":                         {spec: topologytest.Alone + `queue: {messageTTL: 1m500ms}`, want: `queue orders: Main, x-delivery-limit=-1, x-message-ttl=60500`},
		"queue.deliveryLimit, a number":            {spec: topologytest.Alone + `queue: {deliveryLimit: 7}`, want: `queue orders: Main, x-delivery-limit=7`},
		"queue.deliveryLimit, zero":                {spec: topologytest.Alone + `queue: {deliveryLimit: 0}`, want: `queue orders: Main, x-delivery-limit=0`},
		"queue.deliveryLimit, Unlimited":           {spec: topologytest.Alone + `queue: {deliveryLimit: Unlimited}`, want: `queue orders: Main, x-delivery-limit=-1`},
		"queue.deliveryLimit, Unlimited on 3.10":   {on: topologytest.V310, spec: topologytest.Alone + `queue: {deliveryLimit: Unlimited}`, want: `queue orders: Main`},
		"queue.deliveryLimit, BrokerDefault":       {spec: topologytest.Alone + `queue: {deliveryLimit: BrokerDefault}`, want: `queue orders: Main`},
		"queue.maxLength":                          {spec: topologytest.Alone + `queue: {maxLength: 10}`, want: `queue orders: Main, x-delivery-limit=-1, x-max-length=10`},
		"queue.maxLength, zero":                    {spec: topologytest.Alone + `queue: {maxLength: 0}`, want: `queue orders: Main, x-delivery-limit=-1, x-max-length=0`},
		"queue.maxLengthBytes, a quantity":         {spec: topologytest.Alone + `queue: {maxLengthBytes: 1Gi}`, want: `queue orders: Main, x-delivery-limit=-1, x-max-length-bytes=1073741824`},
		"queue.maxLengthBytes, a number":           {spec: topologytest.Alone + `queue: {maxLengthBytes: 5000000000}`, want: `queue orders: Main, x-delivery-limit=-1, x-max-length-bytes=5000000000`},
		"queue.overflow RejectPublish":             {spec: topologytest.Alone + `queue: {overflow: RejectPublish}`, want: `queue orders: Main, x-delivery-limit=-1, x-overflow=reject-publish`},
		"queue.overflow DropHead":                  {spec: topologytest.Alone + `queue: {overflow: DropHead}`, want: `queue orders: Main, x-delivery-limit=-1, x-overflow=drop-head`},
		"queue.singleActiveConsumer":               {spec: topologytest.Alone + `queue: {singleActiveConsumer: true}`, want: `queue orders: Main, x-delivery-limit=-1, x-single-active-consumer=true`},
		"queue.singleActiveConsumer false":         {spec: topologytest.Alone + `queue: {singleActiveConsumer: false}`, want: `queue orders: Main, x-delivery-limit=-1`},
		"queue.initialGroupSize":                   {spec: topologytest.Alone + `queue: {initialGroupSize: 5}`, want: `queue orders: Main, x-delivery-limit=-1, x-quorum-initial-group-size=5`},
		"queue.leaderLocator Balanced":             {spec: topologytest.Alone + `queue: {leaderLocator: Balanced}`, want: `queue orders: Main, x-delivery-limit=-1, x-queue-leader-locator=balanced`},
		"queue.leaderLocator ClientLocal":          {spec: topologytest.Alone + `queue: {leaderLocator: ClientLocal}`, want: `queue orders: Main, x-delivery-limit=-1, x-queue-leader-locator=client-local`},
		"queue.consumerTimeout":                    {spec: topologytest.Alone + `queue: {consumerTimeout: 1h}`, want: `queue orders: Main, x-consumer-timeout=3600000, x-delivery-limit=-1`},
		"queue.consumerTimeout on 3.12":            {on: topologytest.V312, spec: topologytest.Alone + `queue: {consumerTimeout: 1h}`, want: `queue orders: Main, x-consumer-timeout=3600000`},
		"queue.arguments":                          {spec: topologytest.Alone + `queue: {arguments: {x-quorum-target-group-size: 3, x-note: "3"}}`, want: `queue orders: Main, x-delivery-limit=-1, x-note=3, x-quorum-target-group-size=3`},
		"overflow follows deadLetterStrategy":      {spec: topologytest.NoRetry + `queue: {maxLength: 3}`, want: dead(`queue orders: Main, x-dead-letter-exchange=orders.dlx, ` + deadLettering + `, x-max-length=3, x-overflow=reject-publish`)},
		"AtMostOnce leaves strategy, overflow out": {spec: topologytest.NoRetry + `deadLetterStrategy: AtMostOnce`, want: dead(`queue orders: Main, x-dead-letter-exchange=orders.dlx`)},
		"AtMostOnce and DropHead":                  {spec: topologytest.NoRetry + "deadLetterStrategy: AtMostOnce\nqueue: {overflow: DropHead}", want: dead(`queue orders: Main, x-dead-letter-exchange=orders.dlx, x-overflow=drop-head`)},
		"AtMostOnce on every queue with a DLX": {
			spec: "{deadLetterStrategy: AtMostOnce, retry: {delayTiers: [{delay: 1s}]}}",
			want: `
				exchange orders.dlx: DeadLetter, fanout
				queue orders: Main, x-dead-letter-exchange=orders.dlx
				queue orders.retry.1s: DelayTier, x-dead-letter-exchange=, x-dead-letter-routing-key=orders, x-message-ttl=1000
				queue orders.dlq: DeadLetter, x-delivery-limit=-1
				binding orders.dlx -> orders.dlq: DeadLetter, ""`,
		},
		"a main queue with a DLQ has the broker's delivery limit": {spec: topologytest.NoRetry, want: dead(`queue orders: Main, x-dead-letter-exchange=orders.dlx, ` + deadLettering + `, x-overflow=reject-publish`)},
		"and may have another": {spec: topologytest.NoRetry + `queue: {deliveryLimit: Unlimited}`, want: dead(`queue orders: Main, x-dead-letter-exchange=orders.dlx, ` + deadLettering + `, x-delivery-limit=-1, x-overflow=reject-publish`)},

		// bindings
		"a binding has one empty key": {
			spec: topologytest.Alone + `bindings: [{exchange: {name: events, type: fanout}}]`,
			want: `
				exchange events: Source, fanout
				queue orders: Main, x-delivery-limit=-1
				binding events -> orders: Source, ""`,
		},
		"an exchange without type must exist": {
			spec: topologytest.Alone + `bindings: [{exchange: {name: events}, routingKeys: [a, b.#]}]`,
			want: `
				exchange events: Source, must exist
				queue orders: Main, x-delivery-limit=-1
				binding events -> orders: Source, "a"
				binding events -> orders: Source, "b.#"`,
		},
		"an exchange may be named twice, with its type once": {
			spec: topologytest.Alone + `bindings: [{exchange: {name: events}, routingKeys: [a]}, {exchange: {name: events, type: topic}, routingKeys: [b]}, {exchange: {name: events}, routingKeys: [c]}]`,
			want: `
				exchange events: Source, topic
				queue orders: Main, x-delivery-limit=-1
				binding events -> orders: Source, "a"
				binding events -> orders: Source, "b"
				binding events -> orders: Source, "c"`,
		},
		"the same binding twice is one": {
			spec: topologytest.Alone + `bindings: [{exchange: {name: events}, routingKeys: [a, b, a]}, {exchange: {name: events}, routingKeys: [b], arguments: {}}]`,
			want: `
				exchange events: Source, must exist
				queue orders: Main, x-delivery-limit=-1
				binding events -> orders: Source, "a"
				binding events -> orders: Source, "b"`,
		},
		"bindings that differ in arguments are two": {
			spec: topologytest.Alone + `bindings: [{exchange: {name: events, type: headers}, arguments: {x-match: all, priority: 1}}, {exchange: {name: events}, arguments: {x-match: all, priority: "1"}}]`,
			want: `
				exchange events: Source, headers
				queue orders: Main, x-delivery-limit=-1
				binding events -> orders: Source, "" {"priority":1,"x-match":"all"}
				binding events -> orders: Source, "" {"priority":"1","x-match":"all"}`,
		},

		// retry
		"compact delays are normalized": {
			spec: `{retry: {delayTiers: [{delay: 1ms}, {delay: 1500ms}, {delay: 120s}, {delay: 90m}, {delay: 24h}, {delay: 24h0m1s}, {delay: 1500m90s1ms}, {delay: 14d}]}, deadLetter: {policy: Disabled}, deadLetterStrategy: AtMostOnce}`,
			want: `
				queue orders: Main, x-delivery-limit=-1
				queue orders.retry.1ms: DelayTier, x-dead-letter-exchange=, x-dead-letter-routing-key=orders, x-message-ttl=1
				queue orders.retry.1s500ms: DelayTier, x-dead-letter-exchange=, x-dead-letter-routing-key=orders, x-message-ttl=1500
				queue orders.retry.2m: DelayTier, x-dead-letter-exchange=, x-dead-letter-routing-key=orders, x-message-ttl=120000
				queue orders.retry.1h30m: DelayTier, x-dead-letter-exchange=, x-dead-letter-routing-key=orders, x-message-ttl=5400000
				queue orders.retry.24h: DelayTier, x-dead-letter-exchange=, x-dead-letter-routing-key=orders, x-message-ttl=86400000
				queue orders.retry.24h1s: DelayTier, x-dead-letter-exchange=, x-dead-letter-routing-key=orders, x-message-ttl=86401000
				queue orders.retry.25h1m30s1ms: DelayTier, x-dead-letter-exchange=, x-dead-letter-routing-key=orders, x-message-ttl=90090001
				queue orders.retry.336h: DelayTier, x-dead-letter-exchange=, x-dead-letter-routing-key=orders, x-message-ttl=1209600000`,
		},
		"a tier's queue can be named": {
			spec: `{retry: {delayTiers: [{delay: 1s, queueName: later}]}, deadLetter: {policy: Disabled}}`,
			want: `
				queue orders: Main, x-delivery-limit=-1
				queue later: DelayTier, x-dead-letter-exchange=, x-dead-letter-routing-key=orders, x-dead-letter-strategy=at-least-once, x-message-ttl=1000, x-overflow=reject-publish`,
		},
		"retry.exchange binds each tier with its key": {
			spec: `{retry: {exchange: {name: again}, delayTiers: [{delay: 1s}, {delay: 2s, queueName: later}, {delay: 3s, routingKey: k}, {delay: 4s, routingKey: ""}]}, deadLetter: {policy: Disabled}, deadLetterStrategy: AtMostOnce}`,
			want: `
				exchange again: Retry, direct
				queue orders: Main, x-delivery-limit=-1
				queue orders.retry.1s: DelayTier, x-dead-letter-exchange=, x-dead-letter-routing-key=orders, x-message-ttl=1000
				queue later: DelayTier, x-dead-letter-exchange=, x-dead-letter-routing-key=orders, x-message-ttl=2000
				queue orders.retry.3s: DelayTier, x-dead-letter-exchange=, x-dead-letter-routing-key=orders, x-message-ttl=3000
				queue orders.retry.4s: DelayTier, x-dead-letter-exchange=, x-dead-letter-routing-key=orders, x-message-ttl=4000
				binding again -> orders.retry.1s: DelayTier, "orders.retry.1s"
				binding again -> later: DelayTier, "later"
				binding again -> orders.retry.3s: DelayTier, "k"
				binding again -> orders.retry.4s: DelayTier, ""`,
		},
		"retry.exchange can be a topic": {
			spec: `{retry: {exchange: {name: again, type: topic}, delayTiers: [{delay: 1s, routingKey: "#.1s"}]}, deadLetter: {policy: Disabled}, deadLetterStrategy: AtMostOnce}`,
			want: `
				exchange again: Retry, topic
				queue orders: Main, x-delivery-limit=-1
				queue orders.retry.1s: DelayTier, x-dead-letter-exchange=, x-dead-letter-routing-key=orders, x-message-ttl=1000
				binding again -> orders.retry.1s: DelayTier, "#.1s"`,
		},
		"retry.returnTo": {
			spec: `{retry: {returnTo: {exchange: events, routingKey: orders.again}, delayTiers: [{delay: 1s}]}, deadLetter: {policy: Disabled}, deadLetterStrategy: AtMostOnce}`,
			want: `
				queue orders: Main, x-delivery-limit=-1
				queue orders.retry.1s: DelayTier, x-dead-letter-exchange=events, x-dead-letter-routing-key=orders.again, x-message-ttl=1000
				return events -> orders: ["orders.again"]`,
		},
		"retry.returnTo with an empty key": {
			spec: `{retry: {returnTo: {exchange: events, routingKey: ""}, delayTiers: [{delay: 1s}]}, deadLetter: {policy: Disabled}, deadLetterStrategy: AtMostOnce}`,
			want: `
				queue orders: Main, x-delivery-limit=-1
				queue orders.retry.1s: DelayTier, x-dead-letter-exchange=events, x-dead-letter-routing-key=, x-message-ttl=1000
				return events -> orders: [""]`,
		},
		"retry.returnTo without a key: messages keep that of their tier": {
			spec: `{retry: {exchange: {name: again}, returnTo: {exchange: events}, delayTiers: [{delay: 1s, routingKey: one}, {delay: 2s}]}, deadLetter: {policy: Disabled}, deadLetterStrategy: AtMostOnce}`,
			want: `
				exchange again: Retry, direct
				queue orders: Main, x-delivery-limit=-1
				queue orders.retry.1s: DelayTier, x-dead-letter-exchange=events, x-message-ttl=1000
				queue orders.retry.2s: DelayTier, x-dead-letter-exchange=events, x-message-ttl=2000
				binding again -> orders.retry.1s: DelayTier, "one"
				binding again -> orders.retry.2s: DelayTier, "orders.retry.2s"
				return events -> orders: ["one" "orders.retry.2s"]`,
		},

		// retry.strategy Reject
		"Reject by reason": {
			spec: `{retry: {strategy: Reject}}`,
			want: `
				exchange orders.dlx: DeadLetter, headers
				queue orders: Main, x-dead-letter-exchange=orders.dlx, x-dead-letter-strategy=at-least-once, x-overflow=reject-publish
				queue orders.retry.30s: DelayTier, x-dead-letter-exchange=, x-dead-letter-routing-key=orders, x-dead-letter-strategy=at-least-once, x-message-ttl=30000, x-overflow=reject-publish
				` + deadQueue + byReasonBindings,
		},
		"Reject by reason through an exchange with a name": {
			spec: `{retry: {strategy: Reject}, deadLetter: {exchange: {name: dead}}, deadLetterStrategy: AtMostOnce}`,
			want: `
				exchange dead: DeadLetter, headers
				queue orders: Main, x-dead-letter-exchange=dead
				queue orders.retry.30s: DelayTier, x-dead-letter-exchange=, x-dead-letter-routing-key=orders, x-message-ttl=30000
				` + deadQueue + strings.ReplaceAll(byReasonBindings, "orders.dlx", "dead"),
		},
		"Reject by reason where the type says so": {
			on: topologytest.V40, spec: `{retry: {strategy: Reject}, deadLetter: {exchange: {type: headers}}, deadLetterStrategy: AtMostOnce}`,
			want: `
				exchange orders.dlx: DeadLetter, headers
				queue orders: Main, x-dead-letter-exchange=orders.dlx
				queue orders.retry.30s: DelayTier, x-dead-letter-exchange=, x-dead-letter-routing-key=orders, x-message-ttl=30000
				` + deadQueue + byReasonBindings,
		},
		"Reject by reason takes TTL, lengths and a numeric limit": {
			on:   topologytest.V40,
			spec: `{retry: {strategy: Reject}, queue: {messageTTL: 1m, maxLength: 9, deliveryLimit: 3}, deadLetterStrategy: AtMostOnce}`,
			want: `
				exchange orders.dlx: DeadLetter, headers
				queue orders: Main, x-dead-letter-exchange=orders.dlx, x-delivery-limit=3, x-max-length=9, x-message-ttl=60000
				queue orders.retry.30s: DelayTier, x-dead-letter-exchange=, x-dead-letter-routing-key=orders, x-message-ttl=30000
				` + deadQueue + byReasonBindings,
		},
		"Reject by reason with another DLQ": {
			spec: `{retry: {strategy: Reject}, deadLetter: {queue: {name: dead}}, deadLetterStrategy: AtMostOnce}`,
			want: `
				exchange orders.dlx: DeadLetter, headers
				queue orders: Main, x-dead-letter-exchange=orders.dlx
				queue orders.retry.30s: DelayTier, x-dead-letter-exchange=, x-dead-letter-routing-key=orders, x-message-ttl=30000
				queue dead: DeadLetter, x-delivery-limit=-1
				binding orders.dlx -> orders.retry.30s: DelayTier, "" {"x-last-death-reason":"rejected","x-match":"all-with-x"}
				binding orders.dlx -> dead: DeadLetter, "" {"x-last-death-reason":"delivery_limit","x-match":"all-with-x"}
				binding orders.dlx -> dead: DeadLetter, "" {"x-last-death-reason":"expired","x-match":"all-with-x"}
				binding orders.dlx -> dead: DeadLetter, "" {"x-last-death-reason":"maxlen","x-match":"all-with-x"}`,
		},
		"Reject by reason returns with the message's own key where none is given": {
			spec: `{retry: {strategy: Reject, returnTo: {exchange: events}}, deadLetterStrategy: AtMostOnce}`,
			want: `
				exchange orders.dlx: DeadLetter, headers
				queue orders: Main, x-dead-letter-exchange=orders.dlx
				queue orders.retry.30s: DelayTier, x-dead-letter-exchange=events, x-message-ttl=30000
				` + deadQueue + byReasonBindings + `
				return events -> orders: []`,
		},
		"Reject on 3.13 is straight": {
			on:   topologytest.V313,
			spec: `{retry: {strategy: Reject}}`,
			want: `
				exchange orders.dlx: DeadLetter, fanout
				queue orders: Main, x-dead-letter-exchange=, x-dead-letter-routing-key=orders.retry.30s, x-dead-letter-strategy=at-least-once, x-overflow=reject-publish
				queue orders.retry.30s: DelayTier, x-dead-letter-exchange=, x-dead-letter-routing-key=orders, x-dead-letter-strategy=at-least-once, x-message-ttl=30000, x-overflow=reject-publish
				queue orders.dlq: DeadLetter
				binding orders.dlx -> orders.dlq: DeadLetter, ""`,
		},
		"Reject with retry.exchange is straight": {
			spec: `{retry: {strategy: Reject, exchange: {name: again}, delayTiers: [{delay: 5s, routingKey: k}]}, deadLetterStrategy: AtMostOnce}`,
			want: `
				exchange again: Retry, direct
				exchange orders.dlx: DeadLetter, fanout
				queue orders: Main, x-dead-letter-exchange=again, x-dead-letter-routing-key=k, x-delivery-limit=-1
				queue orders.retry.5s: DelayTier, x-dead-letter-exchange=, x-dead-letter-routing-key=orders, x-message-ttl=5000
				` + deadQueue + `
				binding again -> orders.retry.5s: DelayTier, "k"
				binding orders.dlx -> orders.dlq: DeadLetter, ""`,
		},
		"Reject with another type of dead-letter exchange is straight": {
			spec: `{retry: {strategy: Reject}, deadLetter: {exchange: {name: dead, type: direct}, routingKey: parked}, deadLetterStrategy: AtMostOnce}`,
			want: `
				exchange dead: DeadLetter, direct
				queue orders: Main, x-dead-letter-exchange=, x-dead-letter-routing-key=orders.retry.30s, x-delivery-limit=-1
				queue orders.retry.30s: DelayTier, x-dead-letter-exchange=, x-dead-letter-routing-key=orders, x-message-ttl=30000
				` + deadQueue + `
				binding dead -> orders.dlq: DeadLetter, "parked"`,
		},
		"Reject without dead-lettering is straight": {
			spec: `{retry: {strategy: Reject, delayTiers: [{delay: 5s}]}, deadLetter: {policy: Disabled}}`,
			want: `
				queue orders: Main, x-dead-letter-exchange=, x-dead-letter-routing-key=orders.retry.5s, x-dead-letter-strategy=at-least-once, x-delivery-limit=-1, x-overflow=reject-publish
				queue orders.retry.5s: DelayTier, x-dead-letter-exchange=, x-dead-letter-routing-key=orders, x-dead-letter-strategy=at-least-once, x-message-ttl=5000, x-overflow=reject-publish`,
		},
		"straight Reject takes lengths with AtLeastOnce": {
			spec: `{queue: {maxLength: 9}, retry: {strategy: Reject, delayTiers: [{delay: 5s}]}, deadLetter: {policy: Disabled}}`,
			want: `
				queue orders: Main, x-dead-letter-exchange=, x-dead-letter-routing-key=orders.retry.5s, x-dead-letter-strategy=at-least-once, x-delivery-limit=-1, x-max-length=9, x-overflow=reject-publish
				queue orders.retry.5s: DelayTier, x-dead-letter-exchange=, x-dead-letter-routing-key=orders, x-dead-letter-strategy=at-least-once, x-message-ttl=5000, x-overflow=reject-publish`,
		},
		"straight Reject takes BrokerDefault on 3.x, where there is none": {
			on:   topologytest.V313,
			spec: `{queue: {deliveryLimit: BrokerDefault}, retry: {strategy: Reject, delayTiers: [{delay: 5s}]}, deadLetter: {policy: Disabled}, deadLetterStrategy: AtMostOnce}`,
			want: `
				queue orders: Main, x-dead-letter-exchange=, x-dead-letter-routing-key=orders.retry.5s
				queue orders.retry.5s: DelayTier, x-dead-letter-exchange=, x-dead-letter-routing-key=orders, x-message-ttl=5000`,
		},

		// retry.strategy Requeue
		"Requeue":                              {spec: `{retry: {strategy: Requeue}}`, want: dead(`queue orders: Main, x-dead-letter-exchange=orders.dlx, ` + deadLettering + `, x-delivery-limit=4, x-overflow=reject-publish`)},
		"Requeue with maxAttempts":             {spec: `{retry: {strategy: Requeue, maxAttempts: 1}}`, want: dead(`queue orders: Main, x-dead-letter-exchange=orders.dlx, ` + deadLettering + `, x-delivery-limit=0, x-overflow=reject-publish`)},
		"Requeue with retry.redeliveryDelay":   {spec: `{retry: {strategy: Requeue, redeliveryDelay: {min: 250ms, max: 10s}}}`, want: dead(`queue orders: Main, x-dead-letter-exchange=orders.dlx, ` + deadLettering + `, x-delayed-retry-max=10000, x-delayed-retry-min=250, x-delayed-retry-type=all, x-delivery-limit=4, x-overflow=reject-publish`)},
		"maxAttempts is the consumer's matter": {spec: `{retry: {maxAttempts: 9}}`, want: defaults},

		// deadLetter
		"deadLetter.exchange.name": {spec: topologytest.NoRetry + `deadLetter: {exchange: {name: dead}}`, want: `
			exchange dead: DeadLetter, fanout
			queue orders: Main, x-dead-letter-exchange=dead, x-dead-letter-strategy=at-least-once, x-overflow=reject-publish
			` + deadQueue + `
			binding dead -> orders.dlq: DeadLetter, ""`},
		"a direct DLX uses the DLQ's name as key": {spec: topologytest.NoRetry + `deadLetter: {exchange: {type: direct}, queue: {name: dead}}`, want: `
			exchange orders.dlx: DeadLetter, direct
			queue orders: Main, x-dead-letter-exchange=orders.dlx, x-dead-letter-routing-key=dead, x-dead-letter-strategy=at-least-once, x-overflow=reject-publish
			queue dead: DeadLetter, x-delivery-limit=-1
			binding orders.dlx -> dead: DeadLetter, "dead"`},
		"deadLetter.routingKey with a topic DLX": {spec: topologytest.NoRetry + `deadLetter: {exchange: {type: topic}, routingKey: a.b}`, want: `
			exchange orders.dlx: DeadLetter, topic
			queue orders: Main, x-dead-letter-exchange=orders.dlx, x-dead-letter-routing-key=a.b, x-dead-letter-strategy=at-least-once, x-overflow=reject-publish
			` + deadQueue + `
			binding orders.dlx -> orders.dlq: DeadLetter, "a.b"`},
		"an empty deadLetter.routingKey is one": {spec: topologytest.NoRetry + `deadLetter: {exchange: {type: direct}, routingKey: ""}`, want: `
			exchange orders.dlx: DeadLetter, direct
			queue orders: Main, x-dead-letter-exchange=orders.dlx, x-dead-letter-routing-key=, x-dead-letter-strategy=at-least-once, x-overflow=reject-publish
			` + deadQueue + `
			binding orders.dlx -> orders.dlq: DeadLetter, ""`},
		"a DLQ with a maximum length refuses what does not fit": {spec: topologytest.NoRetry + `deadLetter: {queue: {maxLength: 9}}`, want: deadLetterQueue(`x-delivery-limit=-1, x-max-length=9, x-overflow=reject-publish`)},
		"in bytes too":                         {spec: topologytest.NoRetry + `deadLetter: {queue: {maxLengthBytes: 1k}}`, want: deadLetterQueue(`x-delivery-limit=-1, x-max-length-bytes=1000, x-overflow=reject-publish`)},
		"unless it is asked to drop":           {spec: topologytest.NoRetry + `deadLetter: {queue: {maxLength: 9, overflow: DropHead}}`, want: deadLetterQueue(`x-delivery-limit=-1, x-max-length=9, x-overflow=drop-head`)},
		"a DLQ without one has no overflow":    {spec: topologytest.NoRetry + `deadLetter: {queue: {messageTTL: 1h}}`, want: deadLetterQueue(`x-delivery-limit=-1, x-message-ttl=3600000`)},
		"deadLetter.queue.deliveryLimit":       {spec: topologytest.NoRetry + `deadLetter: {queue: {deliveryLimit: 9}}`, want: deadLetterQueue(`x-delivery-limit=9`)},
		"a DLQ may have the broker's limit":    {spec: topologytest.NoRetry + `deadLetter: {queue: {deliveryLimit: BrokerDefault}}`, want: withDeadLetters("queue orders.dlq: DeadLetter")},
		"a DLQ on 3.13 has no limit anyway":    {on: topologytest.V313, spec: topologytest.NoRetry, want: withDeadLetters("queue orders.dlq: DeadLetter")},
		"the other fields of deadLetter.queue": {spec: topologytest.NoRetry + `deadLetter: {queue: {initialGroupSize: 3, leaderLocator: Balanced, consumerTimeout: 2m, arguments: {x-note: text}}}`, want: deadLetterQueue(`x-consumer-timeout=120000, x-delivery-limit=-1, x-note=text, x-queue-leader-locator=balanced, x-quorum-initial-group-size=3`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			version := test.on
			if version == (vhost.Version{}) {
				version = topologytest.V43
			}
			got := topologytest.Describe(t, topologytest.Desired(t, test.spec, version))
			if difference := cmp.Diff(topologytest.Trimmed(test.want), got); difference != "" {
				t.Errorf("topology (-want +got):\n%s", difference)
			}
		})
	}
}

// dead is the topology of a main queue with the default dead-letter exchange and queue.
func dead(main string) string {
	return "exchange orders.dlx: DeadLetter, fanout\n" + main + "\n" + deadQueue + "\nbinding orders.dlx -> orders.dlq: DeadLetter, \"\""
}

// withDeadLetters is the topology of a main queue without retry whose dead-letter queue is given.
func withDeadLetters(queue string) string {
	return `exchange orders.dlx: DeadLetter, fanout
		queue orders: Main, x-dead-letter-exchange=orders.dlx, x-dead-letter-strategy=at-least-once, x-overflow=reject-publish
		` + queue + `
		binding orders.dlx -> orders.dlq: DeadLetter, ""`
}

func deadLetterQueue(arguments string) string {
	return withDeadLetters("queue orders.dlq: DeadLetter, " + arguments)
}

func TestDesiredRefuses(t *testing.T) {
	t.Parallel()
	const straight = "{retry: {strategy: Reject}, deadLetter: {policy: Disabled}, queue: {deliveryLimit: BrokerDefault}}"
	nineLong := "" // each character takes six bytes as JSON
	for i := range 9 {
		nineLong += fmt.Sprintf(`a%d: "%s", `, i, strings.Repeat("<", 1024))
	}
	for name, test := range map[string]struct {
		on      vhost.Version
		spec    string
		reason  string
		message string
	}{
		"a RabbitMQ older than 3.10 is refused": {
			on: topologytest.V39, spec: `{}`, reason: v1alpha1.ReasonUnsupportedByBroker,
			message: `Warren needs RabbitMQ 3.10 or newer and this broker is 3.9: upgrade the broker`,
		},
		"consumerTimeout on 3.10": {
			on: topologytest.V310, spec: `{queue: {consumerTimeout: 1h}}`, reason: v1alpha1.ReasonUnsupportedByBroker,
			message: `queue "orders" needs x-consumer-timeout, which RabbitMQ supports from 3.12 on, and this broker is 3.10: remove queue.consumerTimeout or upgrade the broker`,
		},
		"consumerTimeout of the DLQ on 3.10": {
			on: topologytest.V310, spec: `{deadLetter: {queue: {consumerTimeout: 1h}}}`, reason: v1alpha1.ReasonUnsupportedByBroker,
			message: `queue "orders.dlq" needs x-consumer-timeout, which RabbitMQ supports from 3.12 on, and this broker is 3.10: remove deadLetter.queue.consumerTimeout or upgrade the broker`,
		},
		"redeliveryDelay on 4.2": {
			on: topologytest.V42, spec: `{retry: {strategy: Requeue, redeliveryDelay: {min: 1s, max: 2s}}}`, reason: v1alpha1.ReasonUnsupportedByBroker,
			message: `queue "orders" needs x-delayed-retry-type, which RabbitMQ supports from 4.3 on, and this broker is 4.2: remove retry.redeliveryDelay or upgrade the broker`,
		},
		"a topic key with three # on 4.3.5": {
			on: vhost.RabbitMQ435, spec: `{bindings: [{exchange: {name: events, type: topic}, routingKeys: [a, "#.a.#.b.#"]}]}`,
			reason: v1alpha1.ReasonUnsupportedByBroker,
			message: `routing key "#.a.#.b.#" of topic exchange "events" has more than two words "#", which RabbitMQ refuses from 4.3.5 on, and this broker is 4.3.5: ` +
				"use at most two",
		},
		"a headers dead-letter exchange on 3.13": {
			on: topologytest.V313, spec: `{retry: {strategy: Reject}, deadLetter: {exchange: {type: headers}}}`, reason: v1alpha1.ReasonUnsupportedByBroker,
			message: `deadLetter.exchange.type headers needs RabbitMQ 4.0 or newer and this broker is 3.13: use type fanout, or upgrade the broker`,
		},
		"straight Reject with BrokerDefault on 4.0": {
			on: topologytest.V40, spec: straight, reason: v1alpha1.ReasonUnsafeTopology,
			message: `queue.deliveryLimit BrokerDefault is 20 on this broker (4.0), and messages that exceed it would be lost: use Unlimited or remove it`,
		},
		"straight Reject with a numeric limit on 3.13": {
			on: topologytest.V313, spec: `{retry: {strategy: Reject}, queue: {deliveryLimit: 3}}`, reason: v1alpha1.ReasonUnsafeTopology,
			message: `a numeric queue.deliveryLimit with retry.strategy Reject loses messages on this broker (3.13): use Unlimited, or upgrade to RabbitMQ 4.0`,
		},
		"straight Reject with a numeric limit on 4.0": {
			on: topologytest.V40, spec: `{retry: {strategy: Reject}, queue: {deliveryLimit: 3}, deadLetter: {exchange: {type: fanout}}}`,
			reason:  v1alpha1.ReasonUnsafeTopology,
			message: `a numeric queue.deliveryLimit with retry.strategy Reject loses messages on this broker (4.0): use Unlimited, or use deadLetter.exchange type headers without retry.exchange, on RabbitMQ 4.0 or later`,
		},
		"straight Reject with messageTTL on 3.13": {
			on: topologytest.V313, spec: `{retry: {strategy: Reject}, queue: {messageTTL: 3s}}`, reason: v1alpha1.ReasonUnsafeTopology,
			message: `queue.messageTTL with retry.strategy Reject loses or blocks expired messages on this broker (3.13): remove it, or upgrade to RabbitMQ 4.0`,
		},
		"straight Reject with maxLength AtMostOnce on 3.13": {
			on: topologytest.V313, spec: `{retry: {strategy: Reject}, queue: {maxLength: 3}, deadLetterStrategy: AtMostOnce}`, reason: v1alpha1.ReasonUnsafeTopology,
			message: `queue.maxLength and queue.maxLengthBytes with retry.strategy Reject and deadLetterStrategy AtMostOnce lose the messages that exceed them on this broker (3.13): use AtLeastOnce, remove the limits, or upgrade to RabbitMQ 4.0`,
		},
		"straight Reject with maxLengthBytes AtMostOnce on 3.13": {
			on: topologytest.V313, spec: `{retry: {strategy: Reject}, queue: {maxLengthBytes: 3}, deadLetterStrategy: AtMostOnce}`, reason: v1alpha1.ReasonUnsafeTopology,
			message: `queue.maxLength and queue.maxLengthBytes with retry.strategy Reject and deadLetterStrategy AtMostOnce lose the messages that exceed them on this broker (3.13): use AtLeastOnce, remove the limits, or upgrade to RabbitMQ 4.0`,
		},
		"the name of a hold queue": {
			spec: `{queue: {name: warren-hold-aaaaaaaaaa.victim}}`, reason: v1alpha1.ReasonInvalidSpec,
			message: `name "warren-hold-aaaaaaaaaa.victim" is reserved: Warren's own objects have names that begin with warren-hold-. Choose another name`,
		},
		"the name of a backlog": {
			spec: `{deadLetter: {queue: {name: warren-backlog-aaaaaaaaaa.victim}}}`, reason: v1alpha1.ReasonInvalidSpec,
			message: `name "warren-backlog-aaaaaaaaaa.victim" is reserved: Warren's own objects have names that begin with warren-backlog-. Choose another name`,
		},
		"copies of a backlog": {
			spec: `{bindings: [{exchange: {name: warren-backlog-aaaaaaaaaa}}]}`, reason: v1alpha1.ReasonInvalidSpec,
			message: `name "warren-backlog-aaaaaaaaaa" is reserved: Warren's own objects have names that begin with warren-backlog-. Choose another name`,
		},

		// Only objects that were stored without validation reach these errors:
		"a TTL that is none":          {spec: `{queue: {messageTTL: 1 day}}`, reason: v1alpha1.ReasonInvalidSpec, message: `duration "1 day": must be integers with d, h, m, s, ms in that order, such as 14d, 1h30m or 90s`},
		"a TTL of a DLQ that is none": {spec: `{deadLetter: {queue: {consumerTimeout: soon}}}`, reason: v1alpha1.ReasonInvalidSpec, message: `duration "soon": must be integers with d, h, m, s, ms in that order, such as 14d, 1h30m or 90s`},
		"a delay that is none":        {spec: `{retry: {delayTiers: [{delay: later}]}}`, reason: v1alpha1.ReasonInvalidSpec, message: `duration "later": must be integers with d, h, m, s, ms in that order, such as 14d, 1h30m or 90s`},
		"a long argument of the queue": {
			spec: `{queue: {arguments: {x-a: 1, x-b: ` + strings.Repeat("ü", 513) + `}}}`, reason: v1alpha1.ReasonInvalidSpec,
			message: `queue.arguments: the value of "x-b" has 1026 bytes, at most 1024 are allowed: shorten it`,
		},
		"a long argument of the DLQ": {
			spec: `{deadLetter: {queue: {arguments: {x-b: ` + strings.Repeat("b", 1025) + `}}}}`, reason: v1alpha1.ReasonInvalidSpec,
			message: `deadLetter.queue.arguments: the value of "x-b" has 1025 bytes, at most 1024 are allowed: shorten it`,
		},
		"a long argument of a binding": {
			spec: `{bindings: [{exchange: {name: e}, arguments: {b: ` + strings.Repeat("ü", 513) + `}}]}`, reason: v1alpha1.ReasonInvalidSpec,
			message: `bindings[0].arguments: the value of "b" has 1026 bytes, at most 1024 are allowed: shorten it`,
		},
		"long arguments of a binding": {
			spec: `{bindings: [{exchange: {name: e}, arguments: {` + nineLong + `}}]}`, reason: v1alpha1.ReasonInvalidSpec,
			message: `bindings[0].arguments: all values take 55369 bytes as JSON, at most 49152 are allowed: shorten or remove some`,
		},
		"a redeliveryDelay without ends": {spec: `{retry: {strategy: Requeue, redeliveryDelay: {min: 1s}}}`, reason: v1alpha1.ReasonInvalidSpec, message: `duration "": must be integers with d, h, m, s, ms in that order, such as 14d, 1h30m or 90s`},
		"a redeliveryDelay without min":  {spec: `{retry: {strategy: Requeue, redeliveryDelay: {max: 1s}}}`, reason: v1alpha1.ReasonInvalidSpec, message: `duration "": must be integers with d, h, m, s, ms in that order, such as 14d, 1h30m or 90s`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			version := test.on
			if version == (vhost.Version{}) {
				version = topologytest.V43
			}
			got, err := topology.Desired(topologytest.ConsumerQueue(t, test.spec), version)
			var refusal *topology.Refusal
			if !errors.As(err, &refusal) {
				t.Fatalf("want a refusal, got %v", err)
			}
			topologytest.Equal(t, "refusal", &topology.Refusal{Reason: test.reason, Message: test.message}, refusal)
			topologytest.Equal(t, "message", test.message, err.Error())
			topologytest.Equal(t, "nothing is desired", topology.Topology{}, got)
		})
	}
}

func TestOlder(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		on   vhost.Version
		spec string
		want []vhost.Version
	}{
		"3.10 is the oldest":                           {on: topologytest.V310, spec: `{}`},
		"3.13 has two before it":                       {on: topologytest.V313, spec: `{}`, want: []vhost.Version{topologytest.V312, topologytest.V310}},
		"4.0.5 has two before it, as 4.0":              {on: vhost.Version{Major: 4, Patch: 5}, spec: `{}`, want: []vhost.Version{topologytest.V312, topologytest.V310}},
		"4.0 is not older than itself":                 {on: topologytest.V40, spec: `{}`, want: []vhost.Version{topologytest.V312, topologytest.V310}},
		"4.3":                                          {on: topologytest.V43, spec: `{}`, want: []vhost.Version{topologytest.V40, topologytest.V312, topologytest.V310}},
		"only what knows the spec's arguments":         {on: topologytest.V43, spec: `{queue: {consumerTimeout: 1h}}`, want: []vhost.Version{topologytest.V40, topologytest.V312}},
		"only where the topology would have been safe": {on: topologytest.V43, spec: `{retry: {strategy: Reject}, queue: {messageTTL: 3s}}`, want: []vhost.Version{topologytest.V40}},
		"nothing knew it":                              {on: topologytest.V43, spec: `{retry: {strategy: Requeue, redeliveryDelay: {min: 1s, max: 2s}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want []topology.Topology
			for _, version := range test.want {
				want = append(want, topologytest.Desired(t, test.spec, version))
			}
			topologytest.Equal(t, "older topologies", want, topology.DesiredOnOlderVersions(topologytest.ConsumerQueue(t, test.spec), test.on))
		})
	}
}
