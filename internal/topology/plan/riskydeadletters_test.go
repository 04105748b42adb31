package plan_test

import (
	"testing"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

// risks are the expected advisories by version. The broker has the topology of spec and the policies, and alter changes it further.
type risks struct {
	spec     string
	policies []vhost.Policy
	alter    func(o vhost.Observed)
	// on310, on40 and on43 are the reasons and messages of the advisories of one code.
	on310, on40, on43 []string
}

// on sets what is expected on each version.
func (r risks) on(want ...string) risks {
	r.on310, r.on40, r.on43 = want, want, want
	return r
}

// expect compares the reasons and messages of the advisories of a code, which are all about queue orders.dlq.
func expect(t *testing.T, code v1alpha1.AdvisoryCode, tests map[string]risks) {
	t.Helper()
	for name, test := range tests {
		for version, want := range map[vhost.Version][]string{topologytest.V310: test.on310, topologytest.V40: test.on40, topologytest.V43: test.on43} {
			t.Run(name+" on "+version.String(), func(t *testing.T) {
				t.Parallel()
				topo := topologytest.Desired(t, test.spec, version)
				observed := topologytest.Observe(t, topo)
				observed.Policies = test.policies
				if test.alter != nil {
					test.alter(observed)
				}
				var got []string
				for _, advisory := range plan.Diff(topo, observed, plan.Input{Version: version}).Advisories {
					if advisory.Code == code {
						topologytest.Equal(t, "name", "orders.dlq", advisory.Name)
						got = append(got, string(advisory.Reason)+": "+advisory.Message)
					}
				}
				topologytest.Equal(t, "advisories", want, got)
			})
		}
	}
}

func ofDLQ(key string, value any) []vhost.Policy {
	return []vhost.Policy{{Name: "p", Pattern: vhost.ReadPattern(`\.dlq$`), ApplyTo: "queues", Definition: vhost.Arguments{key: value}}}
}

// mayMatch returns a policy whose pattern Warren cannot evaluate.
func mayMatch(definition vhost.Arguments) []vhost.Policy {
	return []vhost.Policy{{Name: "p", Pattern: vhost.ReadPattern("^[[:alpha:].]+$"), ApplyTo: "queues", Definition: definition}}
}

func byOperator(policies []vhost.Policy) []vhost.Policy {
	for i := range policies {
		policies[i].Operator = true
	}
	return policies
}

func withArgument(name string, value any) func(vhost.Observed) {
	return func(o vhost.Observed) { topologytest.SetArgument(&o, "orders.dlq", name, value) }
}

func TestDeadLettersCanBeLost(t *testing.T) {
	t.Parallel()
	const (
		on310 = ": the broker deletes messages that exceed the limit, and on this version (3.10) each browse that returns a dead letter counts; "
		on40  = ": the broker deletes messages that exceed the limit, and on this version (4.0) each browse that returns a dead letter counts; "
		on43  = ": the broker deletes messages that exceed the limit, and on this version (4.3) rejects in other queues count too, so the first " +
			"browse that returns a dead letter can exceed the limit; "
		recreate = "set deadLetter.queue.deliveryLimit to Unlimited and recreate the queue"
		leave    = `exclude the queue from the pattern of policy "p"`
	)
	each := func(clause, remedy string) risks {
		return risks{on310: []string{clause + on310 + remedy}, on40: []string{clause + on40 + remedy}, on43: []string{clause + on43 + remedy}}
	}
	of := func(r risks, spec string, policies []vhost.Policy, alter func(vhost.Observed)) risks {
		r.spec, r.policies, r.alter = spec, policies, alter
		return r
	}
	const byDefault = `BrokerDefault: queue "orders.dlq" has the broker's default limit of 20 deliveries`
	expect(t, v1alpha1.AdvisoryDeadLettersCanBeLost, map[string]risks{
		"by default there is no limit": {spec: `{}`},
		"unlimited":                    {spec: `{deadLetter: {queue: {deliveryLimit: Unlimited}}}`},
		"no dead-letter queue":         {spec: topologytest.Alone},
		"the default of the broker": {
			spec: `{deadLetter: {queue: {deliveryLimit: BrokerDefault}}}`,
			on40: []string{byDefault + on40 + recreate}, on43: []string{byDefault + on43 + recreate},
		},
		"a limit in its arguments": of(each(`Argument: queue "orders.dlq" has x-delivery-limit 5`, recreate),
			`{deadLetter: {queue: {deliveryLimit: 5}}}`, nil, nil),
		"a queue that was there, without a limit": {
			spec: `{}`, alter: func(o vhost.Observed) {
				o.Queues["orders.dlq"] = vhost.Queue{Durable: true, Arguments: vhost.Arguments{vhost.ArgQueueType: "quorum"}}
			},
			on40: []string{byDefault + on40 + recreate}, on43: []string{byDefault + on43 + recreate},
		},
		"a queue that was there, with -1": {
			spec: `{}`, alter: withArgument(vhost.ArgDeliveryLimit, -1),
			on310: []string{`Argument: queue "orders.dlq" has x-delivery-limit -1` + on310 + recreate},
		},
		"a classic queue that was there": {spec: `{}`, alter: withArgument(vhost.ArgQueueType, "classic")},
		"the queue is missing":           {spec: `{}`, alter: func(o vhost.Observed) { delete(o.Queues, "orders.dlq") }},
		"a policy": of(each(`Policy: policy "p" sets delivery-limit 5 for queue "orders.dlq"`, leave),
			`{}`, ofDLQ("delivery-limit", 5), nil),
		"an operator policy": of(each(`OperatorPolicy: operator policy "p" sets delivery-limit 5 for queue "orders.dlq"`,
			`exclude the queue from the pattern of operator policy "p"`), `{}`, byOperator(ofDLQ("delivery-limit", 5)), nil),
		"a policy that may match": of(each(`PolicyMayApply: policy "p" may apply (Warren cannot evaluate its pattern, or another policy has the same priority), in which case it sets `+
			`delivery-limit 5 for queue "orders.dlq"`, leave), `{}`, mayMatch(vhost.Arguments{"delivery-limit": 5}), nil),
		"a policy that may match beside an argument": of(each(`Argument: queue "orders.dlq" has x-delivery-limit 9`, recreate),
			`{deadLetter: {queue: {deliveryLimit: 9}}}`, mayMatch(vhost.Arguments{"delivery-limit": 5}), nil),
		"the lower of policy and operator policy": of(each(`OperatorPolicy: operator policy "p" sets delivery-limit 5 for queue "orders.dlq"`,
			`exclude the queue from the pattern of operator policy "p"`), `{}`,
			append(byOperator(ofDLQ("delivery-limit", 5)), ofDLQ("delivery-limit", 6)...), nil),
		"a policy that takes the default away": {
			spec: `{deadLetter: {queue: {deliveryLimit: BrokerDefault}}}`, policies: ofDLQ("delivery-limit", -1),
			on310: []string{`Policy: policy "p" sets delivery-limit -1 for queue "orders.dlq"` + on310 + leave},
		},
		"a policy for other queues": {spec: `{}`, policies: []vhost.Policy{
			{Name: "p", Pattern: vhost.ReadPattern("^invoices"), ApplyTo: "queues", Definition: vhost.Arguments{"delivery-limit": 5}},
		}},
		"a limit of the main queue": {spec: `{queue: {deliveryLimit: 5}}`},
	})
}

func TestDeadLettersExpire(t *testing.T) {
	t.Parallel()
	const (
		argument = `Argument: queue "orders.dlq" has x-message-ttl 86400000: a dead letter is deleted after 86400000 ms, and nothing can move ` +
			`it back; move dead letters before they expire, or remove deadLetter.queue.messageTTL and recreate the queue`
		policy = `Policy: policy "p" sets message-ttl 60000 for queue "orders.dlq": a dead letter is deleted after 60000 ms, and nothing can ` +
			`move it back; move dead letters before they expire, or exclude the queue from the pattern of policy "p"`
	)
	expect(t, v1alpha1.AdvisoryDeadLettersExpire, map[string]risks{
		"by default none":                {spec: `{}`},
		"a TTL of the main queue":        {spec: `{queue: {messageTTL: 1m}}`},
		"no dead-letter queue":           {spec: topologytest.Alone, policies: ofDLQ("message-ttl", 60000)},
		"an argument":                    risks{spec: `{deadLetter: {queue: {messageTTL: 24h}}}`}.on(argument),
		"a policy":                       risks{spec: `{}`, policies: ofDLQ("message-ttl", 60000)}.on(policy),
		"a policy shortens the argument": risks{spec: `{deadLetter: {queue: {messageTTL: 24h}}}`, policies: ofDLQ("message-ttl", 60000)}.on(policy),
		"a policy that is longer":        risks{spec: `{deadLetter: {queue: {messageTTL: 24h}}}`, policies: ofDLQ("message-ttl", 86400001)}.on(argument),
		"a policy that sets no number":   {spec: `{}`, policies: ofDLQ("message-ttl", "soon")},
		"a policy without effect":        {spec: `{}`, policies: ofDLQ("message-ttl", -1)},
		"a classic queue that was there": {spec: `{deadLetter: {queue: {messageTTL: 24h}}}`, alter: withArgument(vhost.ArgQueueType, "classic")},
	})
}

func TestDeadLettersDropped(t *testing.T) {
	t.Parallel()
	const (
		oldest = ": once the queue is full, it drops the oldest dead letters, without any notice; "
		refuse = oldest + "set deadLetter.queue.overflow to RejectPublish and recreate the queue"
		leave  = oldest + `exclude the queue from the pattern of policy "p"`
	)
	full := vhost.Arguments{"max-length": 10, "overflow": "reject-publish"}
	expect(t, v1alpha1.AdvisoryDeadLettersDropped, map[string]risks{
		"by default there is no length": {spec: `{}`},
		"a length, which refuses":       {spec: `{deadLetter: {queue: {maxLength: 10}}}`},
		"a size, which refuses":         {spec: `{deadLetter: {queue: {maxLengthBytes: 1Gi}}}`},
		"at most once, and a length":    {spec: `{deadLetterStrategy: AtMostOnce, deadLetter: {queue: {maxLength: 10}}}`},
		"a length of the main queue":    {spec: `{queue: {maxLength: 10}}`},
		"no dead-letter queue":          {spec: topologytest.Alone, policies: ofDLQ("max-length", 10)},

		"a length and DropHead": risks{spec: `{deadLetter: {queue: {maxLength: 10, overflow: DropHead}}}`}.
			on(`Argument: queue "orders.dlq" has x-max-length 10` + refuse),
		"a size and DropHead": risks{spec: `{deadLetter: {queue: {maxLengthBytes: 1Ki, overflow: DropHead}}}`}.
			on(`Argument: queue "orders.dlq" has x-max-length-bytes 1024` + refuse),
		"DropHead without a length": {spec: `{deadLetter: {queue: {overflow: DropHead}}}`},
		"a queue that was there":    risks{spec: `{}`, alter: withArgument(vhost.ArgMaxLength, 10)}.on(`Argument: queue "orders.dlq" has x-max-length 10` + refuse),
		"a policy sets a length":    risks{spec: `{}`, policies: ofDLQ("max-length", 10)}.on(`Policy: policy "p" sets max-length 10 for queue "orders.dlq"` + leave),
		"a policy sets a size": risks{spec: `{}`, policies: ofDLQ("max-length-bytes", 10)}.
			on(`Policy: policy "p" sets max-length-bytes 10 for queue "orders.dlq"` + leave),
		"a policy sets drop-head": risks{spec: `{deadLetter: {queue: {maxLength: 10}}}`, policies: ofDLQ("overflow", "drop-head")}.
			on(`Policy: queue "orders.dlq" has x-max-length 10, and policy "p" sets overflow drop-head` + leave),
		"a policy sets reject-publish":         {spec: `{deadLetter: {queue: {maxLength: 10, overflow: DropHead}}}`, policies: ofDLQ("overflow", "reject-publish")},
		"a policy sets both, and refuses":      {spec: `{}`, policies: []vhost.Policy{{Name: "p", ApplyTo: "queues", Definition: full}}},
		"a policy that may match sets both":    {spec: `{}`, policies: mayMatch(full)},
		"a policy that may match sets neither": {spec: `{}`, policies: mayMatch(vhost.Arguments{"message-ttl": 1})},
		"a policy that may match sets a length": risks{spec: `{}`, policies: mayMatch(vhost.Arguments{"max-length": 10})}.
			on(`PolicyMayApply: policy "p" may apply (Warren cannot evaluate its pattern, or another policy has the same priority), in which case it sets max-length 10 for queue "orders.dlq"` + leave),
		"an operator policy wins over a policy": risks{
			spec:     `{deadLetter: {queue: {maxLength: 10}}}`,
			policies: append(ofDLQ("overflow", "reject-publish"), byOperator(ofDLQ("overflow", "drop-head"))...),
		}.on(`OperatorPolicy: queue "orders.dlq" has x-max-length 10, and operator policy "p" sets overflow drop-head` + oldest +
			`exclude the queue from the pattern of operator policy "p"`),
	})
}

func TestDeadLettersDelayed(t *testing.T) {
	t.Parallel()
	const says = ": a dead letter that was browsed and returned is hidden for 60000 ms or longer, and neither requests nor Redrives nor Purges find it; "
	const leave = `exclude the queue from the pattern of policy "p"`
	delay := func(kind string) vhost.Arguments {
		return vhost.Arguments{vhost.KeyDelayedRetryType: kind, vhost.KeyDelayedRetryMin: 60000}
	}
	of := func(definition vhost.Arguments) []vhost.Policy {
		policies := ofDLQ("", nil)
		policies[0].Definition = definition
		return policies
	}
	tests := map[string]risks{
		"by default there is no delay": {spec: `{}`},
		"a policy without a delay":     {spec: `{}`, policies: of(delay("disabled"))},
		"a policy for the main queue": {spec: `{}`, policies: []vhost.Policy{
			{Name: "p", Pattern: vhost.ReadPattern("^orders$"), ApplyTo: "queues", Definition: delay("all")},
		}},
		"an operator policy": risks{spec: `{}`, policies: byOperator(of(delay("all")))}.on(
			`OperatorPolicy: operator policy "p" sets delayed-retry-min 60000 for queue "orders.dlq"` + says +
				`exclude the queue from the pattern of operator policy "p"`),
		"a policy that may match": risks{spec: `{}`, policies: mayMatch(delay("all"))}.on(
			`PolicyMayApply: policy "p" may apply (Warren cannot evaluate its pattern, or another policy has the same priority), in which case it sets delayed-retry-min 60000 for queue "orders.dlq"` +
				says + leave),
		"an operator policy that disables it": {spec: `{}`, policies: append(
			byOperator(of(vhost.Arguments{vhost.KeyDelayedRetryType: "disabled"})), of(delay("all"))...)},
	}
	for _, kind := range []string{"all", "failed", "returned"} {
		tests[kind] = risks{spec: `{}`, policies: of(delay(kind))}.on(
			`Policy: policy "p" sets delayed-retry-min 60000 for queue "orders.dlq"` + says + leave)
	}
	expect(t, v1alpha1.AdvisoryDeadLettersDelayed, tests)
}
