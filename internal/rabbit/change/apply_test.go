package change_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/netfault"
	"github.com/warren-mq/warren/test/rabbittest"
)

func TestApplyCreatesAndWritesThrough(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		connection := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil)
		wanted := topology.Topology{
			Exchanges: []topology.Exchange{{Name: "orders.dlx", Type: "fanout", Declare: true}, {Name: "amq.topic"}},
			Queues: []topology.Queue{
				{Name: "orders", Arguments: rabbittest.Quorum(vhost.Arguments{"x-message-ttl": int64(60000), "x-dead-letter-exchange": "orders.dlx"})},
				{Name: "orders.dlq", Arguments: rabbittest.Quorum(nil)},
			},
			Bindings: []topology.Binding{
				{Source: "orders.dlx", Destination: "orders.dlq"},
				{Source: "amq.topic", Destination: "orders", RoutingKey: "order.*"},
			},
		}
		for range 2 { // the second time nothing changes
			if err := connection.Apply(t.Context(), wanted); err != nil {
				t.Fatal(err)
			}
		}
		written, _ := connection.Observe(rabbittest.NamesOf(wanted))
		if err := connection.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		seen, ok := connection.Observe(rabbittest.NamesOf(wanted))
		if !ok {
			t.Fatal("nothing observed")
		}
		if difference := cmp.Diff(seen, written); difference != "" {
			t.Errorf("written through (+) differs from what the broker says (-):\n%s", difference)
		}
		if len(vh.Definitions().Queues) != 2 || len(vh.Definitions().Bindings) != 2 || len(seen.Queues) != 2 {
			t.Errorf("the vhost has %+v", vh.Definitions())
		}
	})
}

func TestApplyReportsEachObject(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareQueue("other", rabbittest.Quorum(vhost.Arguments{"x-message-ttl": int64(1000)}))
		vh.DeclareExchange("events", "topic", nil)
		connection := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil)
		err := connection.Apply(t.Context(), topology.Topology{
			Exchanges: []topology.Exchange{
				{Name: "events", Type: "fanout", Declare: true},
				{Name: "amq.mine", Type: "fanout", Declare: true},
				{Name: "fine", Type: "direct", Declare: true},
				{Name: "foreign"}, // used, never declared
			},
			Queues: []topology.Queue{
				{Name: "other", Arguments: rabbittest.Quorum(vhost.Arguments{"x-message-ttl": int64(2000)})},
				{Name: "fine", Arguments: rabbittest.Quorum(nil)},
				{Name: strings.Repeat("ü", 128), Arguments: rabbittest.Quorum(nil)},
			},
			Bindings: []topology.Binding{
				{Source: "foreign", Destination: "fine", RoutingKey: "k"},
				{Source: "fine", Destination: "fine", RoutingKey: "k"},
				{Source: "fine", Destination: "other", RoutingKey: "left out, for the queue is another"},
			},
		})
		want := []struct {
			reason error
			op     string
			object vhost.ID
			says   string
		}{
			{brokererr.ErrPreconditionFailed, "declare", vhost.ExchangeID("events"), "inequivalent arg 'type' for exchange 'events'"},
			{brokererr.ErrAccessRefused, "declare", vhost.ExchangeID("amq.mine"), "reserved prefix"},
			{brokererr.ErrPreconditionFailed, "declare", vhost.QueueID("other"), "inequivalent arg 'x-message-ttl' for queue 'other'"},
			{brokererr.ErrTooLarge, "declare", vhost.QueueID(strings.Repeat("ü", 128)), "a name or routing key has 256 bytes, and AMQP allows 255"},
			{brokererr.ErrNotFound, "bind", topology.Binding{Source: "foreign", Destination: "fine", RoutingKey: "k"}.ID(), `bind queue "fine" to exchange "foreign" with routing key "k"`},
		}
		failures := objectErrors(t, err)
		if len(failures) != len(want) {
			t.Fatalf("%d failures: %v", len(failures), err)
		}
		for i, failure := range failures {
			rabbittest.MustBe(t, failure, want[i].reason, want[i].says, "in vhost \""+vh.Name+"\": ")
			if failure.Op != want[i].op || failure.ID != want[i].object || failure.VHost != vh.Name {
				t.Errorf("failure %d is %+v", i, failure)
			}
		}
		definitions := vh.Definitions()
		if len(definitions.Queues) != 2 || len(definitions.Bindings) != 1 || definitions.Bindings[0].Destination != "fine" {
			t.Errorf("the vhost has %+v", definitions)
		}
		if !connection.Health().Connected {
			t.Error("a refused object cost the connection")
		}
	})
}

// An argument that the broker does not accept is ErrInvalidArgument. An argument that differs from the existing object is
// ErrPreconditionFailed.
func TestInvalidAndInequivalentArguments(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		connection := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil)
		declare := func(arguments vhost.Arguments) error {
			return connection.Apply(t.Context(), topology.Topology{Queues: []topology.Queue{{Name: "q", Arguments: rabbittest.Quorum(arguments)}}})
		}
		for _, invalid := range []vhost.Arguments{
			{"x-queue-mode": "lazy"},
			{"x-max-priority": int64(3)},
			{"x-max-length": int64(-1)},
			{"x-max-length": "many"},
			{"x-overflow": "nope"},
			{"x-dead-letter-routing-key": "without an exchange"},
		} {
			err := declare(invalid)
			rabbittest.MustBe(t, err, brokererr.ErrInvalidArgument, "invalid arg '"+invalid.Keys()[0]+"' for queue 'q'")
			if errors.Is(err, brokererr.ErrPreconditionFailed) {
				t.Errorf("%v is the error of a queue that differs from its declaration", err)
			}
		}
		if queues := vh.Definitions().Queues; len(queues) > 0 {
			t.Errorf("the vhost has %+v", queues)
		}
		if err := declare(vhost.Arguments{"x-max-length": int64(1)}); err != nil {
			t.Fatal(err)
		}
		rabbittest.MustBe(t, declare(vhost.Arguments{"x-max-length": int64(2)}), brokererr.ErrPreconditionFailed, "inequivalent arg 'x-max-length' for queue 'q'")
	})
}

func objectErrors(t *testing.T, err error) []*brokererr.ObjectError {
	t.Helper()
	var failures []*brokererr.ObjectError
	if all, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err); ok {
		for _, one := range all.Unwrap() {
			failure, ok := errors.AsType[*brokererr.ObjectError](one)
			if !ok {
				t.Fatalf("%v is no ObjectError", one)
			}
			failures = append(failures, failure)
		}
	}
	return failures
}

// The error names the missing permission, for PermissionDenied. RabbitMQ requires configure on a declared object; read on a queue and write
// on its dead-letter exchange; write on the queue and read on the exchange of a binding.
func TestApplyNamesTheMissingPermission(t *testing.T) {
	queue := func(name string, arguments vhost.Arguments) topology.Topology {
		return topology.Topology{Queues: []topology.Queue{{Name: name, Arguments: rabbittest.Quorum(arguments)}}}
	}
	binding := func(source, destination string) topology.Topology {
		return topology.Topology{Bindings: []topology.Binding{{Source: source, Destination: destination}}}
	}
	cases := map[string]struct {
		apply topology.Topology
		says  string
	}{
		"queue":                {queue("none", nil), "configure access to queue 'none'"},
		"dead-letter exchange": {queue("all", vhost.Arguments{"x-dead-letter-exchange": "none"}), "write access to exchange 'none'"},
		"exchange": {
			topology.Topology{Exchanges: []topology.Exchange{{Name: "none", Type: "fanout", Declare: true}}},
			"configure access to exchange 'none'",
		},
		"binding, queue":    {binding("r.exchange", "none"), "write access to queue 'none'"},
		"binding, exchange": {binding("none", "w.queue"), "read access to exchange 'none'"},
	}
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		vh.DeclareQueue("w.queue", nil)
		vh.DeclareQueue("none", nil)
		vh.DeclareExchange("r.exchange", "fanout", nil)
		vh.DeclareExchange("none", "fanout", nil)
		user := vh.Broker.NewUser(t, "management")
		vh.Grant(user, "^all", "^(all|w)", "^(all|r)")
		config := rabbittest.ConfigOf(vh)
		config.Username, config.Password = user.Username, user.Password
		connection := rabbittest.Connected(t, config, nil)
		for name, test := range cases {
			t.Run(name, func(t *testing.T) {
				rabbittest.MustBe(t, connection.Apply(t.Context(), test.apply), brokererr.ErrAccessRefused, test.says)
			})
		}
		// With a dead-letter exchange, read on the queue is needed too; 3.10 does not report which permission is missing.
		vh.Grant(user, ".*", ".*", "^$")
		err := connection.Apply(t.Context(), queue("all", vhost.Arguments{"x-dead-letter-exchange": "none"}))
		rabbittest.MustBe(t, err, brokererr.ErrAccessRefused, "read access to queue 'all'")
	})
}

// A broker compares only some arguments. The snapshot retains the existing object, whatever arguments were declared.
func TestApplyRetainsExistingObjects(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		connection := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil)
		declare := func(value string) {
			arguments := rabbittest.Quorum(vhost.Arguments{"x-unknown-to-all": value})
			if err := connection.Apply(t.Context(), topology.Topology{Queues: []topology.Queue{{Name: "q", Arguments: arguments}}}); err != nil {
				t.Fatal(err)
			}
			observed, _ := connection.Observe(vhost.Selection{Queues: []string{"q"}})
			if got := observed.Queues["q"].Arguments["x-unknown-to-all"]; got != "first" {
				t.Errorf("observed %q", got)
			}
		}
		declare("first")
		declare("second")
		if now := rabbittest.Seen(t, connection); now.Queues["q"].Arguments["x-unknown-to-all"] != "first" {
			t.Errorf("the broker has %+v", now.Queues["q"])
		}
	})
}

// An answer from before a declaration does not remove the declared object from the snapshot, and causes no notice.
func TestApplyDuringARefresh(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		config := rabbittest.DeafConfigOf(t, vh)
		proxy := netfault.NewHTTPProxy(t, config.ManagementURI, netfault.HTTPOptions{})
		config.ManagementURI = proxy.URI
		var listener rabbittest.Listener
		connection := rabbittest.Connected(t, config, listener.Hear)
		held, release := make(chan struct{}), make(chan struct{})
		proxy.Change(func(*http.Response) error {
			close(held)
			<-release
			return nil
		})
		refreshed := make(chan error, 1)
		go func() { refreshed <- connection.Refresh(t.Context()) }()
		<-held // the broker has answered: the vhost is empty
		wanted := topology.Topology{
			Exchanges: []topology.Exchange{{Name: "x", Type: "topic", Declare: true}},
			Queues:    []topology.Queue{{Name: "q", Arguments: rabbittest.Quorum(nil)}},
			Bindings:  []topology.Binding{{Source: "x", Destination: "q", RoutingKey: "#"}},
		}
		if err := connection.Apply(t.Context(), wanted); err != nil {
			t.Fatal(err)
		}
		proxy.Change(nil)
		close(release)
		if err := <-refreshed; err != nil {
			t.Fatal(err)
		}
		observed, _ := connection.Observe(rabbittest.NamesOf(wanted))
		if len(observed.Queues) != 1 || len(observed.Exchanges) != 1 || len(observed.BindingsTo["q"]) != 1 {
			t.Errorf("the older answer won: %+v", observed)
		}
		// An ETag of that time must not hide a deletion by another client.
		vh.DeleteQueue("q")
		if now := rabbittest.Seen(t, connection); len(now.Queues) != 0 {
			t.Errorf("after the deletion: %+v", now.Queues)
		}
		listener.Awaits(t, snapshot.Notice{Queues: []string{"q"}, Routes: []string{"x"}})
	})
}

// The type of an exchange that a spec does not declare is unknown to Warren, so RabbitMQ must refuse the key.
func TestApplyATopicKeyThatTheBrokerRefuses(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		version, err := vhost.ParseVersion(vh.Broker.Version)
		if err != nil {
			t.Fatal(err)
		}
		vh.DeclareExchange("events", "topic", nil)
		err = rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil).Apply(t.Context(), topology.Topology{
			Queues:   []topology.Queue{{Name: "orders", Arguments: rabbittest.Quorum(nil)}},
			Bindings: []topology.Binding{{Source: "events", Destination: "orders", RoutingKey: "#.a.#.b.#"}},
		})
		if !version.AtLeast(vhost.RabbitMQ435) {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
		rabbittest.MustBe(t, err, brokererr.ErrInvalidArgument, "at most 2 are allowed")
	})
}
