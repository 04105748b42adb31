package change

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/eventfeed"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/observe"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

// Changer changes the objects of a vhost over AMQP.
type Changer struct {
	VHost  string
	Errors brokererr.Errors
	// Channels run the operations. Observer receives the confirmed changes.
	Channels *amqpconn.Pool
	Observer *observe.Observer
	// HoldsLease reports whether this process still leads.
	HoldsLease func() bool
}

// Apply declares the exchanges (those with Declare) and queues of a topology, then binds its bindings. Objects that already exist as
// declared do not change. Observe shows confirmed changes immediately.
//
// Each object succeeds or fails independently. A binding whose queue or exchange failed in the same call is skipped. The error joins one
// *ObjectError per failure, in the order of the topology.
func (c *Changer) Apply(ctx context.Context, changes topology.Topology) error {
	return c.Declare(ctx, "", changes)
}

// Declare is Apply on the cluster with this key, or on any cluster if the key is empty. On another cluster, it fails with ErrOtherCluster.
func (c *Changer) Declare(ctx context.Context, cluster string, wanted topology.Topology) error {
	var operations []operation
	for _, exchange := range wanted.Exchanges {
		if exchange.Declare {
			operations = append(operations, declareExchange(exchange))
		}
	}
	for _, queue := range wanted.Queues {
		operations = append(operations, declareQueue(queue))
	}
	failures := c.perform(ctx, cluster, operations)
	failed := vhost.IDs{}
	for _, failure := range failures {
		failed[failure.ID] = true
	}
	operations = nil
	for _, binding := range wanted.Bindings {
		if !failed.HasEitherEnd(binding.ID()) {
			operations = append(operations, bind(binding))
		}
	}
	return joinFailures(append(failures, c.perform(ctx, cluster, operations)...))
}

func joinFailures(failures []*brokererr.ObjectError) error {
	all := make([]error, len(failures))
	for i, failure := range failures {
		all[i] = failure
	}
	return errors.Join(all...)
}

// operation is one change of one object.
type operation struct {
	about brokererr.ObjectError // without the reason
	// names must fit into short strings of AMQP, or the AMQP library closes the connection.
	names []string
	// arguments must fit into a frame together with the names, or the broker closes the connection.
	arguments vhost.Arguments
	// cluster is the only cluster that the operation may reach; any if empty. Removals and recreations name it.
	cluster string
	// permissions are the permissions that the operation needs, by kind of object.
	permissions map[vhost.Kind]string
	// kind is the kind of change in the event about the operation.
	kind eventfeed.Kind
	call func(*amqp.Channel) error
	// write applies the change to a snapshot; see snapshot.Write.
	write func(*snapshot.Snapshot) bool
}

// perform runs as many operations at a time as the pool allows, on the cluster with this key, or on any cluster if the key is empty. It
// returns the failures in the order of the operations.
func (c *Changer) perform(ctx context.Context, cluster string, operations []operation) []*brokererr.ObjectError {
	results := make([]error, len(operations))
	var all sync.WaitGroup
	for i, operation := range operations {
		operation.cluster = cluster
		all.Go(func() { results[i] = c.performOne(ctx, operation) })
	}
	all.Wait()
	var failures []*brokererr.ObjectError
	for i, err := range results {
		if err == nil {
			continue
		}
		failure := operations[i].about
		failure.VHost, failure.Err = c.VHost, err
		failures = append(failures, &failure)
	}
	return failures
}

func (c *Changer) performOne(ctx context.Context, operation operation) error {
	if operation.about.ID.Name+operation.about.ID.Destination == "" { // AMQP reads an empty name as the queue declared last on the channel
		return fmt.Errorf("%w: it has no name", brokererr.ErrPreconditionFailed)
	}
	if err := operation.fits(c.Channels.FrameMax()); err != nil {
		return err
	}
	var own error // an error of Warren, which Do must not classify
	call := func(channel *amqp.Channel) error {
		if operation.needsLease() && !c.HoldsLease() {
			own = brokererr.ErrNotLeader
			return nil
		}
		c.Observer.Begin(operation.about.ID, operation.kind)
		if err := operation.call(channel); err != nil {
			if brokererr.Refused(err) {
				c.Observer.Refused(operation.about.ID, operation.kind)
			}
			return err
		}
		c.Observer.Write(snapshot.Write{ID: operation.about.ID, Apply: operation.write})
		return nil
	}
	began, err := time.Now(), error(nil)
	if operation.cluster == "" {
		err = c.Channels.Do(ctx, call)
	} else {
		err = c.Channels.DoOnCluster(ctx, operation.cluster, call)
	}
	if own != nil {
		return own
	}
	metrics.BrokerRequests.Observe(time.Since(began), "amqp", operation.method(), brokererr.Result(err))
	return operation.namePermission(err)
}

// needsLease reports whether only the leader may run an operation: it removes an object, or is a step of a recreation. A former
// leader may run other operations, because the next leader declares the same objects.
func (o operation) needsLease() bool { return o.kind == eventfeed.Deleted || o.cluster != "" }

// method returns the name of the AMQP method, such as queue.declare.
func (o operation) method() string {
	if o.about.ID.Kind == vhost.KindExchange {
		return "exchange." + o.about.Op
	}
	return "queue." + o.about.Op // Warren binds queues only
}

// kindsInReplies maps the words of RabbitMQ to kinds of objects.
var kindsInReplies = map[string]vhost.Kind{"exchange": vhost.KindExchange, "queue": vhost.KindQueue}

// refusal is how RabbitMQ 3.10 reports a missing permission. From 4.0 on it is "configure access to queue …".
var refusal = regexp.MustCompile(`: access to (queue|exchange) '`)

// namePermission adds the missing permission and its object to the message of a refusal.
func (o operation) namePermission(err error) error {
	if !errors.Is(err, brokererr.ErrAccessRefused) {
		return err
	}
	text := refusal.ReplaceAllStringFunc(err.Error(), func(match string) string {
		object := refusal.FindStringSubmatch(match)[1]
		return fmt.Sprintf(": %s access to %s '", o.permissions[kindsInReplies[object]], object)
	})
	return brokererr.New(text, brokererr.ErrAccessRefused)
}

func declareExchange(exchange topology.Exchange) operation {
	kind := string(exchange.Type)
	return operation{
		about: brokererr.ObjectError{Op: brokererr.OpDeclare, ID: exchange.ID()}, kind: eventfeed.Created,
		names: []string{exchange.Name, kind},

		permissions: map[vhost.Kind]string{vhost.KindExchange: "configure"},
		call: func(channel *amqp.Channel) error {
			return channel.ExchangeDeclare(exchange.Name, kind, true, false, false, false, nil)
		},
		write: func(s *snapshot.Snapshot) bool {
			return s.PutExchange(exchange.Name, vhost.Exchange{Type: kind, Durable: true})
		},
	}
}

func declareQueue(queue topology.Queue) operation {
	onQueue := "configure"
	if _, dead := queue.Arguments[vhost.ArgDeadLetterExchange]; dead {
		onQueue = "configure or read" // read is for the dead-letter exchange
	}
	return operation{
		about: brokererr.ObjectError{Op: brokererr.OpDeclare, ID: queue.ID()}, kind: eventfeed.Created,
		names: []string{queue.Name}, arguments: queue.Arguments,

		permissions: map[vhost.Kind]string{vhost.KindQueue: onQueue, vhost.KindExchange: "write"},
		call: func(channel *amqp.Channel) error {
			_, err := channel.QueueDeclare(queue.Name, true, false, false, false, amqpconn.Table(queue.Arguments))
			return err
		},
		write: func(s *snapshot.Snapshot) bool {
			item := management.QueueItem{Durable: true, Arguments: queue.Arguments}
			return s.PutQueue(queue.Name, item.Observed())
		},
	}
}

func bind(binding topology.Binding) operation {
	operation := onBinding(binding, brokererr.OpBind, eventfeed.Created)
	operation.call = func(channel *amqp.Channel) error {
		return channel.QueueBind(binding.Destination, binding.RoutingKey, binding.Source, false, amqpconn.Table(binding.Arguments))
	}
	operation.write = func(s *snapshot.Snapshot) bool { return s.PutBinding(binding.Observed()) }
	return operation
}

func unbind(binding topology.Binding) operation {
	operation := onBinding(binding, brokererr.OpUnbind, eventfeed.Deleted)
	operation.call = func(channel *amqp.Channel) error {
		for _, table := range tablesOfAllTypes(binding.Arguments) { // an unbind of a binding that does not exist succeeds
			if err := channel.QueueUnbind(binding.Destination, binding.RoutingKey, binding.Source, table); err != nil {
				return err
			}
		}
		return nil
	}
	operation.write = func(s *snapshot.Snapshot) bool { return s.DropBinding(binding.Observed()) }
	return operation
}

// tablesOfAllTypes returns the arguments of a binding with integers of 64 bits, of 32 bits as clients for Java and Python send them, as
// short as possible, as amqplib for Node.js sends them, and with whole floats. RabbitMQ distinguishes bindings by the types of their
// arguments (3.10, 4.0, 4.3), and the management API does not show the types.
func tablesOfAllTypes(arguments vhost.Arguments) []amqp.Table {
	wide := amqpconn.Table(arguments)
	medium, short, float := maps.Clone(wide), maps.Clone(wide), maps.Clone(wide)
	for key, value := range wide {
		number, isInteger := value.(int64)
		if !isInteger {
			continue
		}
		float[key] = float64(number)
		if number != int64(int32(number)) {
			continue
		}
		medium[key], short[key] = int32(number), int32(number)
		switch {
		case number == int64(int8(number)):
			short[key] = int8(number)
		case number == int64(int16(number)):
			short[key] = int16(number)
		}
	}
	tables := []amqp.Table{wide, medium, short, float}
	return slices.CompactFunc(tables, func(a, b amqp.Table) bool { return reflect.DeepEqual(a, b) })
}

// onBinding returns the common part of bind and unbind. Its ID has no arguments, because errors do not show them.
func onBinding(binding topology.Binding, op string, kind eventfeed.Kind) operation {
	id := binding.ID()
	id.Arguments = ""
	return operation{
		about: brokererr.ObjectError{Op: op, ID: id}, kind: kind,
		names: []string{binding.Destination, binding.Source, binding.RoutingKey}, arguments: binding.Arguments,

		permissions: map[vhost.Kind]string{vhost.KindQueue: "write", vhost.KindExchange: "read"},
	}
}
