package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/amqpmethod"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/netfault"
	"github.com/warren-mq/warren/test/testenv/program"
)

// specs are the ConsumerQueues of the trials. Their names cannot be derived from the queue's name, so a program must read its
// contract.
var specs = map[contract.Strategy]string{
	contract.StrategyPublish: `{queue: {name: jobs.v1}, bindings: [{exchange: {name: shop, type: topic}, routingKeys: [placed]}],
		retry: {maxAttempts: 4, exchange: {name: jobs.wait},
			delayTiers: [{delay: 1s, queueName: jobs.short, routingKey: short}, {delay: 4s, queueName: jobs.long, routingKey: long}]},
		deadLetter: {exchange: {name: jobs.dead, type: direct}, routingKey: given-up, queue: {name: jobs.cellar}}}`,
	contract.StrategyReject: `{queue: {name: jobs.v1}, bindings: [{exchange: {name: shop, type: topic}, routingKeys: [placed]}],
		retry: {strategy: Reject, maxAttempts: 4, delayTiers: [{delay: 1s, queueName: jobs.short}]},
		deadLetter: {queue: {name: jobs.cellar}}}`,
	// Each lost connection counts as an attempt of each unsettled message.
	contract.StrategyRequeue: `{queue: {name: jobs.v1}, bindings: [{exchange: {name: shop, type: topic}, routingKeys: [placed]}],
		retry: {strategy: Requeue, maxAttempts: 9}, deadLetter: {queue: {name: jobs.cellar}}}`,
	contract.StrategyNone: `{queue: {name: jobs.v1}, bindings: [{exchange: {name: shop, type: topic}, routingKeys: [placed]}],
		retry: {policy: None}, deadLetter: {exchange: {name: jobs.dead, type: direct}, routingKey: given-up, queue: {name: jobs.cellar}}}`,
}

// trial tries one pitfall. It has a topology in its own virtual host. The program consumes through a proxy, as a user with the
// permissions of a consumer. Its methods end the trial if the broker or the program fails to start or respond.
type trial struct {
	*program.Program
	limits

	result      *result
	settings    *settings
	vhost       *brokers.VHost
	private     *brokers.Private // the broker, if the trial may disturb it
	user        brokers.User
	contract    contract.Contract
	desired     topology.Topology
	proxy       *netfault.Proxy
	direct      string       // address of a proxy that passes all frames to t.proxy
	address     string       // address of the broker for the program
	unknownTags atomic.Int64 // how often the broker closed a channel because of an unknown delivery tag
	provoked    int64        // how many of them the trial has caused
	copied      atomic.Bool  // the broker has confirmed a copy; a program may check its permissions with a message that is refused
	consumed    atomic.Int64 // how often the broker has answered basic.consume or basic.get
	deliveries  []*deliveries
	document    string // path of the contract
	log         *os.File
	journal     *journal
	subject     *subject
	concurrency int // handlers at a time
	prefetch    int
	sent        []message
	deadLetters map[string][]amqp.Delivery // dead letters by the ID of the message, in the order of their arrival
	retries     map[string][]amqp.Delivery // copies for a delay tier, which mirrorRetries receives, likewise
}

// message is a message that was sent.
type message struct {
	id string
	// dies reports whether the message must become a dead letter.
	dies bool
	// fails reports whether the program may publish a copy of the message.
	fails bool
}

func newTrial(p *program.Program, r *result, settings *settings, broker brokers.Broker, private *brokers.Private) *trial {
	t := &trial{
		Program: p, result: r, settings: settings, limits: settings.limits, private: private,
		concurrency: concurrency, prefetch: prefetch, journal: &journal{},
		deadLetters: map[string][]amqp.Delivery{}, retries: map[string][]amqp.Delivery{},
	}
	cq := &v1alpha1.ConsumerQueue{}
	cq.Name = "jobs"
	t.check(yaml.UnmarshalStrict([]byte(specs[settings.strategy]), &cq.Spec))
	version, err := vhost.ParseVersion(broker.Version)
	t.check(err)
	t.vhost = broker.NewVHostNamed(p, "conformance ")
	t.contract, err = topology.ContractOf(cq, t.vhost.Name, version)
	t.check(err)
	t.desired, err = topology.Desired(cq, version)
	t.check(err)
	t.declare()
	t.user = broker.NewUser(p)
	t.allow()
	t.proxy = netfault.NewProxy(p, broker.AMQPURI)
	t.direct = t.intercept(func(netfault.Frame) netfault.Verdict { return netfault.Pass }).Address
	t.document = filepath.Join(p.TempDir(), "contract.json")
	t.writeContract()
	t.check(os.MkdirAll(settings.logs, 0o755))
	t.log, err = os.Create(filepath.Join(settings.logs, r.pitfall.name+".log"))
	t.check(err)
	p.Cleanup(func() { _ = t.log.Close() })
	return t
}

func (t *trial) check(err error) {
	if err != nil {
		t.Fatal(err)
	}
}

// declare declares the missing objects of the topology.
func (t *trial) declare() {
	for _, exchange := range t.desired.Exchanges {
		t.vhost.DeclareExchange(exchange.Name, string(exchange.Type), nil)
	}
	for _, queue := range t.desired.Queues {
		t.vhost.DeclareQueue(queue.Name, queue.Arguments)
	}
	for _, binding := range t.desired.Bindings {
		t.vhost.Bind(binding.Source, binding.Destination, binding.RoutingKey, binding.Arguments)
	}
}

// redeclareMain declares the main queue again, with one more argument, and writes the changed contract.
func (t *trial) redeclareMain(argument string, value any) {
	t.vhost.DeleteQueue(t.contract.Queue)
	for i, queue := range t.desired.Queues {
		if queue.Name == t.contract.Queue {
			t.desired.Queues[i].Arguments[argument] = value
		}
	}
	t.declare()
	t.writeContract()
}

// allow grants the program's user the permissions of a consumer: to read the main queue, and to write to the exchanges of the
// contract.
func (t *trial) allow() {
	routes := t.routes()
	exchanges := make([]string, 0, len(routes))
	for _, route := range routes {
		if route.Exchange == "" {
			route.Exchange = "amq.default"
		}
		exchanges = append(exchanges, route.Exchange)
	}
	t.vhost.Grant(t.user, "^$", "^("+strings.Join(exchanges, "|")+")$", "^"+t.contract.Queue+"$")
}

// forbid revokes the permission to write. RabbitMQ caches permissions per channel.
func (t *trial) forbid() { t.vhost.Grant(t.user, "^$", "^$", "^"+t.contract.Queue+"$") }

// routes returns the routes to which the program publishes copies.
func (t *trial) routes() []contract.Route {
	var routes []contract.Route
	for _, tier := range t.contract.Tiers {
		if t.contract.Strategy == contract.StrategyPublish {
			routes = append(routes, tier.Route)
		}
	}
	if t.contract.Park != nil {
		routes = append(routes, *t.contract.Park)
	}
	return routes
}

// intercept starts a proxy for the next start of the program. decide decides about each frame between the program and t.proxy.
func (t *trial) intercept(decide func(netfault.Frame) netfault.Verdict) *netfault.FrameProxy {
	unsettled := &deliveries{tags: map[channel]map[uint64]bool{}}
	proxy := netfault.NewFrameProxy(t, t.proxy.URI, func(f netfault.Frame) netfault.Verdict {
		unsettled.note(f)
		switch {
		case f.FromBroker && f.Method == amqpmethod.ChannelClose && bytes.Contains(f.Arguments, []byte("unknown delivery tag")):
			t.unknownTags.Add(1)
		case f.FromBroker && f.Method == amqpmethod.BasicAck:
			t.copied.Store(true)
		case f.Method == amqpmethod.BasicConsumeOK, f.Method == amqpmethod.BasicGetOK, f.Method == amqpmethod.BasicGetEmpty:
			t.consumed.Add(1)
		}
		return decide(f)
	})
	unsettled.proxy = proxy
	t.deliveries = append(t.deliveries, unsettled)
	t.address = proxy.Address
	return proxy
}

// environment returns the environment variables of the program.
func (t *trial) environment() []string {
	uri := url.URL{
		Scheme: "amqp", Host: t.address, User: url.UserPassword(t.user.Username, t.user.Password),
		Path: "/" + t.vhost.Name, RawPath: "/" + url.PathEscape(t.vhost.Name), RawQuery: "heartbeat=" + strconv.Itoa(heartbeat),
	}
	return []string{
		"AMQP_URL=" + uri.String(), "WARREN_CONTRACT=" + t.document, fmt.Sprint("WARREN_CONCURRENCY=", t.concurrency),
		fmt.Sprint("WARREN_PREFETCH=", t.prefetch), fmt.Sprint("WARREN_DRAIN_MILLISECONDS=", drain.Milliseconds()),
	}
}

// writeContract replaces the file atomically, as a kubelet does.
func (t *trial) writeContract() {
	document, err := json.Marshal(t.contract)
	t.check(err)
	next := t.document + ".next"
	t.check(os.WriteFile(next, document, 0o600))
	t.check(os.Rename(next, t.document))
}

// send publishes a message that the program must handle, and returns its ID.
func (t *trial) send(verb string) string { return t.sendMessage(verb, false, amqp.Publishing{}) }

// sendAll publishes count messages that the program must handle.
func (t *trial) sendAll(count int, verb string) {
	for range count {
		t.send(verb)
	}
}

// sendFatal publishes a message that must become a dead letter.
func (t *trial) sendFatal(verb string) string { return t.sendMessage(verb, true, amqp.Publishing{}) }

func (t *trial) sendMessage(verb string, dies bool, properties amqp.Publishing) string {
	id := strconv.Itoa(len(t.sent) + 1)
	properties.Body, properties.DeliveryMode = []byte(verb+" "+id), amqp.Persistent
	t.vhost.Send("shop", "placed", properties)
	t.sent = append(t.sent, message{id, dies, dies || strings.HasPrefix(verb, "fail")})
	return id
}

// addMistake records a mistake of the program.
func (t *trial) addMistake(format string, arguments ...any) {
	t.result.mistakes = append(t.result.mistakes, fmt.Sprintf(format, arguments...))
}

// until waits until a condition is true, for at most a timeout, and returns the condition. It stops waiting when the program has ended.
func (t *trial) until(timeout time.Duration, condition func() bool) bool {
	end := time.Now().Add(timeout)
	for !condition() {
		if t.subject != nil && t.subject.HasEnded() {
			return condition()
		}
		if time.Now().After(end) || t.Context().Err() != nil {
			return false
		}
		time.Sleep(20 * time.Millisecond)
	}
	return true
}

// pause waits while the program may make a mistake.
func (t *trial) pause(length time.Duration) { t.until(length, func() bool { return false }) }

// settle waits until each message is handled or a dead letter, or for t.event.
func (t *trial) settle() {
	t.until(t.event, func() bool {
		if len(t.missing()) > 0 {
			t.readDeadLetters()
			t.pause(100 * time.Millisecond) // each call of readDeadLetters opens a connection
		}
		return len(t.missing()) == 0
	})
}

// missing returns the IDs of the messages that are neither handled nor dead letters.
func (t *trial) missing() []string {
	var missing []string
	for _, m := range t.sent {
		if t.journal.handled(m.id) == 0 && len(t.deadLetters[m.id]) == 0 {
			missing = append(missing, m.id)
		}
	}
	return missing
}

// idOf returns the ID of a message.
func idOf(delivery amqp.Delivery) string {
	_, id, _ := strings.Cut(string(delivery.Body), " ")
	return id
}

// readDeadLetters removes and records the messages of the dead-letter queue.
func (t *trial) readDeadLetters() {
	for _, deadLetter := range t.take(t.contract.DeadLetterQueue) {
		t.deadLetters[idOf(deadLetter)] = append(t.deadLetters[idOf(deadLetter)], deadLetter)
	}
}

// take removes all messages from a queue. It gets them one by one, because the broker sends a consumer more messages than take reads, and
// removes them.
func (t *trial) take(queue string) (taken []amqp.Delivery) {
	if t.vhost.Ready(queue) == 0 {
		return nil
	}
	connection, err := t.vhost.Connect("warren-conformance")
	t.check(err)
	defer func() { _ = connection.Close() }()
	channel, err := connection.Channel()
	t.check(err)
	for {
		message, exists, err := channel.Get(queue, true) //nolint:forbidigo // no message is returned
		t.check(err)
		if !exists {
			return taken
		}
		taken = append(taken, message)
	}
}

// tierQueue returns the queue of a tier. The contract does not name it if the tier has an exchange.
func (t *trial) tierQueue(tier contract.Tier) string {
	if tier.Exchange == "" {
		return tier.RoutingKey
	}
	return map[string]string{"short": "jobs.short", "long": "jobs.long", "later": "jobs.later"}[tier.RoutingKey]
}
