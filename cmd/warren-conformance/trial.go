package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/netfault"
	"github.com/warren-mq/warren/test/testenv/program"
)

// specs are the ConsumerQueues of the trials. No name can be guessed from the queue's: a program has to read its contract.
var specs = map[contract.Strategy]string{
	contract.StrategyPublish: `{queue: {name: jobs.v1}, bindings: [{exchange: {name: shop, type: topic}, routingKeys: [placed]}],
		retry: {maxAttempts: 4, exchange: {name: jobs.wait},
			delayTiers: [{delay: 1s, queueName: jobs.short, routingKey: short}, {delay: 1500ms, queueName: jobs.long, routingKey: long}]},
		deadLetter: {exchange: {name: jobs.dead, type: direct}, routingKey: given-up, queue: {name: jobs.cellar}}}`,
	contract.StrategyReject: `{queue: {name: jobs.v1}, bindings: [{exchange: {name: shop, type: topic}, routingKeys: [placed]}],
		retry: {strategy: Reject, maxAttempts: 4, delayTiers: [{delay: 1s, queueName: jobs.short}]},
		deadLetter: {queue: {name: jobs.cellar}}}`,
	// Each cut connection counts as an attempt of each message in hand.
	contract.StrategyRequeue: `{queue: {name: jobs.v1}, bindings: [{exchange: {name: shop, type: topic}, routingKeys: [placed]}],
		retry: {strategy: Requeue, maxAttempts: 9}, deadLetter: {queue: {name: jobs.cellar}}}`,
	contract.StrategyNone: `{queue: {name: jobs.v1}, bindings: [{exchange: {name: shop, type: topic}, routingKeys: [placed]}],
		retry: {policy: None}, deadLetter: {exchange: {name: jobs.dead, type: direct}, routingKey: given-up, queue: {name: jobs.cellar}}}`,
}

// trial is one pitfall: a topology in a vhost of its own, and a program that consumes through a proxy, as a user with only the
// permissions of a consumer. Its methods end the trial if RabbitMQ does not answer or the program does not start.
type trial struct {
	*program.Program

	result      *result
	settings    *settings
	limit       time.Duration // how long the trial waits for what must happen
	vhost       *brokers.VHost
	private     *brokers.Private // the broker, if the trial may stop it
	user        brokers.User
	contract    contract.Contract
	desired     topology.Topology
	proxy       *netfault.Proxy
	address     string // where the program finds the broker
	document    string // the file with the contract
	log         *os.File
	journal     *journal
	subject     *subject
	sent        []message
	deadLetters map[string]amqp.Delivery // dead letters by the ID of the message
}

// message is a message that was sent.
type message struct {
	id string
	// dies is true if the message must become a dead letter, instead of being handled.
	dies bool
}

func newTrial(p *program.Program, r *result, given *settings, broker brokers.Broker, private *brokers.Private) *trial {
	t := &trial{
		Program: p, result: r, settings: given, limit: given.limit, private: private,
		journal: &journal{}, deadLetters: map[string]amqp.Delivery{},
	}
	cq := &v1alpha1.ConsumerQueue{}
	cq.Name = "jobs"
	t.check(yaml.UnmarshalStrict([]byte(specs[given.strategy]), &cq.Spec))
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
	t.address = t.proxy.Address
	t.document = filepath.Join(p.TempDir(), "contract.json")
	t.writeContract()
	t.check(os.MkdirAll(given.logs, 0o755))
	t.log, err = os.Create(filepath.Join(given.logs, r.pitfall.name+".log"))
	t.check(err)
	p.Cleanup(func() {
		t.kill()
		_ = t.log.Close()
	})
	return t
}

func (t *trial) check(err error) {
	if err != nil {
		t.Fatal(err)
	}
}

// declare declares what is missing of the topology.
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

// allow gives the program's user what a consumer needs: to read the main queue, and to publish where the contract says.
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

// forbid removes the permission to publish. The broker caches permissions for each channel.
func (t *trial) forbid() { t.vhost.Grant(t.user, "^$", "^$", "^"+t.contract.Queue+"$") }

// routes are where the program publishes copies.
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

// environment is what the program is started with.
func (t *trial) environment() []string {
	uri := url.URL{
		Scheme: "amqp", Host: t.address, User: url.UserPassword(t.user.Username, t.user.Password),
		Path: "/" + t.vhost.Name, RawPath: "/" + url.PathEscape(t.vhost.Name), RawQuery: "heartbeat=" + strconv.Itoa(heartbeat),
	}
	return []string{
		"AMQP_URL=" + uri.String(), "WARREN_CONTRACT=" + t.document, fmt.Sprint("WARREN_CONCURRENCY=", concurrency),
		fmt.Sprint("WARREN_PREFETCH=", prefetch), fmt.Sprint("WARREN_DRAIN_MILLISECONDS=", drain.Milliseconds()),
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

// send publishes a message that the program has to handle, and returns its ID.
func (t *trial) send(verb string) string { return t.sendMessage(verb, false, amqp.Publishing{}) }

// sendAll publishes so many messages that the program has to handle.
func (t *trial) sendAll(count int, verb string) {
	for range count {
		t.send(verb)
	}
}

// sendFatal publishes a message that has to become a dead letter.
func (t *trial) sendFatal(verb string) string { return t.sendMessage(verb, true, amqp.Publishing{}) }

func (t *trial) sendMessage(verb string, dies bool, properties amqp.Publishing) string {
	id := strconv.Itoa(len(t.sent) + 1)
	properties.Body, properties.DeliveryMode, properties.MessageId = []byte(verb+" "+id), amqp.Persistent, "message-"+id
	t.vhost.Send("shop", "placed", properties)
	t.sent = append(t.sent, message{id, dies})
	return id
}

// fails adds a mistake of the program.
func (t *trial) fails(format string, arguments ...any) {
	t.result.seen = append(t.result.seen, fmt.Sprintf(format, arguments...))
}

// until waits until something is true, at most for so long, and reports whether it was. A program that has ended makes nothing happen.
func (t *trial) until(atMost time.Duration, happens func() bool) bool {
	end := time.Now().Add(atMost)
	for !happens() {
		if t.subject != nil && t.subject.HasEnded() {
			return happens()
		}
		if time.Now().After(end) || t.Context().Err() != nil {
			return false
		}
		time.Sleep(20 * time.Millisecond)
	}
	return true
}

// pause gives the program time to do what it must not do.
func (t *trial) pause(length time.Duration) { t.until(length, func() bool { return false }) }

// settle waits until each message has come to its end, or for a time.
func (t *trial) settle() {
	t.until(t.limit, func() bool {
		if len(t.missing()) > 0 {
			t.readDeadLetters()
			t.pause(100 * time.Millisecond) // each reading costs the broker a connection
		}
		return len(t.missing()) == 0
	})
}

// missing lists the messages that have not come to their end.
func (t *trial) missing() []string {
	var missing []string
	for _, m := range t.sent {
		if _, dead := t.deadLetters[m.id]; t.journal.handled(m.id) == 0 && !dead {
			missing = append(missing, m.id)
		}
	}
	return missing
}

// judge stops the program and counts: a message that was neither handled nor dead-lettered, and is in no queue any more, is lost.
func (t *trial) judge() {
	t.stop()
	t.subject = nil
	if t.Context().Err() != nil {
		t.fails("the trial did not end within %s", longest)
		return
	}
	missing := t.missing()
	waiting := 0
	if len(missing) > 0 {
		waiting = t.waiting(len(missing))
	}
	if t.result.lost = max(0, len(missing)-waiting); t.result.lost > 0 {
		t.fails("%d of %d messages are lost, of these: %s", t.result.lost, len(t.sent), list(missing))
	} else if len(missing) > 0 {
		t.fails("%d of %d messages still wait in a queue: %s", len(missing), len(t.sent), list(missing))
	}
	for _, m := range t.sent {
		t.result.repeated += max(0, t.journal.handled(m.id)-1)
		_, dead := t.deadLetters[m.id]
		switch {
		case dead && !m.dies:
			t.fails("message %s is a dead letter, and had to be handled", m.id)
		case !dead && m.dies && t.journal.handled(m.id) > 0:
			t.fails("message %s was handled, and had to become a dead letter", m.id)
		}
	}
}

// waiting counts the messages in the queues once all have returned from the program: either there are so many, or some are lost.
// A message that waits to be dead-lettered is not ready, and not lost.
func (t *trial) waiting(expected int) int {
	queues := make([]string, 0, 2+len(t.contract.Tiers))
	queues = append(queues, t.contract.Queue, t.contract.DeadLetterQueue)
	for _, tier := range t.contract.Tiers {
		queues = append(queues, t.tierQueue(tier))
	}
	ready := 0
	t.until(t.limit/2, func() bool {
		ready = 0
		for _, queue := range queues {
			ready += t.vhost.Ready(queue)
		}
		return ready >= expected
	})
	return ready + t.vhost.Held()
}

func list(ids []string) string {
	const shown = 5
	if len(ids) > shown {
		ids = append(slices.Clone(ids[:shown]), "…")
	}
	return strings.Join(ids, ", ")
}

// readDeadLetters takes what is in the dead-letter queue.
func (t *trial) readDeadLetters() {
	for _, letter := range t.take(t.contract.DeadLetterQueue) {
		_, id, found := strings.Cut(string(letter.Body), " ")
		if _, twice := t.deadLetters[id]; twice {
			t.result.repeated++
		}
		if found {
			t.deadLetters[id] = letter
		}
	}
}

// take takes all messages out of a queue.
func (t *trial) take(queue string) []amqp.Delivery {
	var taken []amqp.Delivery
	count := t.vhost.Ready(queue)
	if count == 0 {
		return nil
	}
	connection, err := t.vhost.Connect("warren-conformance")
	t.check(err)
	defer func() { _ = connection.Close() }()
	channel, err := connection.Channel()
	t.check(err)
	deliveries, err := channel.Consume(queue, "", true, false, false, false, nil)
	t.check(err)
	idle := time.After(2 * time.Second)
	for range count {
		select {
		case delivery := <-deliveries:
			taken = append(taken, delivery)
		case <-idle:
			return taken
		}
	}
	return taken
}

// tierQueue returns the queue of a tier, which the contract does not name where tiers have an exchange.
func (t *trial) tierQueue(tier contract.Tier) string {
	if tier.Exchange == "" {
		return tier.RoutingKey
	}
	return map[string]string{"short": "jobs.short", "long": "jobs.long", "later": "jobs.later"}[tier.RoutingKey]
}
