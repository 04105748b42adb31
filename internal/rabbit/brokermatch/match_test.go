package brokermatch_test

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/brokermatch"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/rabbit/timing"
	"github.com/warren-mq/warren/test/amqpmethod"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/hostile"
	"github.com/warren-mq/warren/test/netfault"
	"github.com/warren-mq/warren/test/rabbittest"
)

// glancing waits less for the proof of a match.
func glancing() timing.Timeouts {
	quick := rabbittest.Unpaced()
	quick.Match, quick.Statistics, quick.LastRetry = 200*time.Millisecond, 500*time.Millisecond, 200*time.Millisecond
	return quick
}

// AMQP and the management API of two clusters with the same name do not match.
func TestAMQPOfOneBrokerAndManagementOfAnother(t *testing.T) {
	deadline.InTestAll(t)
	t.Parallel()
	here, another := brokers.Newest(t).NewVHost(t), brokers.NewPrivate(t)
	another.NameCluster(here.Broker.ClusterName(t))
	there := here.At(another.Broker)
	for name, permission := range map[string]string{"shown by a queue": ".*", "shown by the connection": "^$"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			user := here.Broker.NewUser(t, "management")
			here.Grant(user, permission, ".*", ".*")
			another.Broker.SetTags(t, user, "management")
			there.Grant(user, permission, ".*", ".*")
			config := rabbittest.ConfigOf(here)
			config.Username, config.Password, config.ResyncInterval = user.Username, user.Password, time.Second
			relay := netfault.NewProxy(t, there.Broker.AMQPURI)
			config.AMQPURI = relay.URI
			connection, err := rabbittest.OpenWith(config, logr.Discard(), func(snapshot.Notice) {}, glancing())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(connection.Close)
			rabbittest.AwaitHealth(t, connection, rabbittest.FailsWith(brokererr.ErrClusterMismatch,
				"AMQP at "+relay.Address+" leads to RabbitMQ "+there.Broker.Version,
				"the management API at "+strings.TrimPrefix(here.Broker.ManagementURI, "http://")+" to RabbitMQ "+here.Broker.Version))
			NewWithT(t).Consistently(func() error { return connection.Health().Err }).WithTimeout(time.Second).
				WithPolling(5 * time.Millisecond).Should(MatchError(brokererr.ErrClusterMismatch))
			if err := connection.Apply(t.Context(), rabbittest.OneQueue); err == nil {
				t.Error("something was declared")
			}
			if queues := slices.Concat(here.Definitions().Queues, there.Definitions().Queues); len(queues) > 0 {
				t.Errorf("%+v", queues)
			}
			relay.LeadTo(here.Broker.AMQPURI)
			rabbittest.AwaitHealth(t, connection, rabbittest.IsWell)
		})
	}
}

// After a match, a proxy may begin to lead to another cluster on the same TCP connection.
func TestManagementLeadsElsewhereAfterAMatch(t *testing.T) {
	t.Parallel()
	vhost := brokers.Newest(t).NewVHost(t)
	config := rabbittest.ConfigOf(vhost)
	proxy := netfault.NewHTTPProxy(t, config.ManagementURI, netfault.HTTPOptions{})
	config.ManagementURI = proxy.URI
	connection, err := rabbittest.OpenWith(config, logr.Discard(), func(snapshot.Notice) {}, glancing())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(connection.Close)
	rabbittest.AwaitHealth(t, connection, rabbittest.IsWell)
	proxy.Change(func(response *http.Response) error {
		if strings.Contains(response.Request.URL.Path, "/"+management.MatchQueue) {
			response.StatusCode = http.StatusNotFound
			netfault.Replace(response, `{"error": "Object Not Found"}`)
		}
		return nil
	})
	vhost.DeclareQueue("news", nil) // so that the next refresh is not answered "not modified"
	connection.RequestRefresh()
	rabbittest.AwaitHealth(t, connection, rabbittest.FailsWith(brokererr.ErrClusterMismatch))
	if err := connection.Apply(t.Context(), rabbittest.OneQueue); err == nil {
		t.Error("something was declared")
	}
	proxy.Change(nil)
	rabbittest.AwaitHealth(t, connection, rabbittest.IsWell)
}

// A proxy may begin to lead to another cluster between two requests: for the identity of the broker, and for its AMQP connections.
func TestManagementLeadsElsewhereDuringAMatch(t *testing.T) {
	t.Parallel()
	vhost := brokers.Newest(t).NewVHost(t)
	straight := rabbittest.Opened(t, rabbittest.ConfigOf(vhost), func(snapshot.Notice) {})
	config := rabbittest.ConfigOf(vhost)
	proxy := netfault.NewHTTPProxy(t, config.ManagementURI, netfault.HTTPOptions{})
	config.ManagementURI = proxy.URI
	var shown atomic.Bool
	proxy.Change(func(response *http.Response) error {
		switch path := response.Request.URL.Path; {
		case strings.Contains(path, "/"+management.MatchQueue):
			shown.Store(true)
		case strings.HasSuffix(path, "/global-parameters") && !shown.Load():
			netfault.Replace(response, `[{"name": "internal_cluster_id", "value": "rabbitmq-cluster-id-elsewhere"}]`)
		}
		return nil
	})
	connection, err := rabbittest.OpenWith(config, logr.Discard(), func(snapshot.Notice) {}, glancing())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(connection.Close)
	rabbittest.AwaitHealth(t, connection, rabbittest.IsWell)
	if got, want := connection.Health().Cluster.ID, straight.Health().Cluster.ID; got != want || want == "" {
		t.Errorf("the id of the cluster is %q, want %q", got, want)
	}
}

// A second connection, such as that of a move, may lead to another broker.
func TestASecondConnectionLeadsElsewhere(t *testing.T) {
	t.Parallel()
	connection := rabbittest.Opened(t, rabbittest.ConfigOf(brokers.Newest(t).NewVHost(t)), nil)
	cluster := healthOf(t, connection).Cluster.Key()
	for name, way := range map[string]hostile.AMQPWay{
		"shown by a queue": nil,
		"shown by the names of the clusters": func(s *hostile.Session, received hostile.Received) bool {
			return received.Method == amqpmethod.QueueDeclare &&
				s.Send(received.Channel, amqpmethod.ChannelClose, uint16(amqp.AccessRefused), "ACCESS_REFUSED", uint16(0), uint16(0))
		},
	} {
		uri, err := url.Parse(hostile.NewAMQP(t, way).URI)
		if err != nil {
			t.Fatal(err)
		}
		timeouts := rabbittest.Unpaced()
		dialer := brokermatch.Dialer{Options: amqpconn.DialOptions{URI: uri, VHost: "/", Timeout: timeouts.Dial}, Timeouts: timeouts}
		if _, err := dialer.DialSecond(t.Context(), connection.Channels, cluster); !errors.Is(err, brokererr.ErrOtherCluster) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A move or a deletion does not wait forever for a broker that does not answer on the second connection.
func TestASecondConnectionIsNotAnswered(t *testing.T) {
	t.Parallel()
	uri, err := url.Parse(hostile.NewAMQP(t, func(_ *hostile.Session, received hostile.Received) bool {
		return received.Method == amqpmethod.QueueDeclare
	}).URI)
	if err != nil {
		t.Fatal(err)
	}
	timeouts := rabbittest.Unpaced()
	timeouts.Operation = 100 * time.Millisecond
	dialer := brokermatch.Dialer{Options: amqpconn.DialOptions{URI: uri, VHost: "/", Timeout: timeouts.Dial}, Timeouts: timeouts}
	began := time.Now()
	_, err = dialer.DialSecond(t.Context(), nil, "")
	// Without heartbeats of the server, the AMQP library ends the connection after 30 s.
	if took := time.Since(began); !errors.Is(err, brokererr.ErrUnreachable) || took > deadline.For(time.Second) {
		t.Errorf("took %v: %v", took, err)
	}
}

// A broker without statistics lists no connections. Then only names are compared.
func TestMatchedByName(t *testing.T) {
	t.Parallel()
	vhost := brokers.Newest(t).NewVHost(t)
	user := vhost.Broker.NewUser(t, "management")
	vhost.Grant(user, "^$", ".*", ".*")
	config := rabbittest.ConfigOf(vhost)
	proxy := netfault.NewHTTPProxy(t, config.ManagementURI, netfault.HTTPOptions{})
	config.ManagementURI, config.Username, config.Password = proxy.URI, user.Username, user.Password
	for name, named := range map[string]string{"the same": vhost.Broker.ClusterName(t), "another": "rabbit@elsewhere"} {
		proxy.Change(func(response *http.Response) error {
			if strings.HasSuffix(response.Request.URL.Path, "/overview") {
				netfault.Replace(response, `{"rabbitmq_version": "4.3.6", "disable_stats": true, "cluster_name": "`+named+`"}`)
			}
			return nil
		})
		connection, err := rabbittest.OpenWith(config, logr.Discard(), func(snapshot.Notice) {}, glancing())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(connection.Close)
		if name == "another" {
			rabbittest.AwaitHealth(t, connection, rabbittest.FailsWith(brokererr.ErrClusterMismatch, `cluster "rabbit@elsewhere"`))
			continue
		}
		rabbittest.AwaitHealth(t, connection, rabbittest.IsWell)
		if !connection.Health().MatchedByName {
			t.Error("only the names could be compared")
		}
	}
}

// The capabilities follow changes of the user's tags without a new connection.
func TestCapabilitiesFollowTheTags(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vhost *brokers.VHost) {
		user := vhost.Broker.NewUser(t, "administrator")
		vhost.Grant(user, ".*", ".*", ".*")
		config := rabbittest.ConfigOf(vhost)
		config.Username, config.Password = user.Username, user.Password
		connection := rabbittest.Connected(t, config, nil)
		cluster := connection.Health().Cluster
		for _, test := range []struct {
			tag                   string
			definitions, policies bool
		}{{"management", false, false}, {"policymaker", false, true}, {"administrator", true, true}, {"monitoring", false, false}} {
			vhost.Broker.SetTags(t, user, test.tag)
			NewWithT(t).Eventually(func(g Gomega) { // the broker may remember the tags for a moment
				g.Expect(connection.Refresh(t.Context())).To(Succeed())
				health := connection.Health()
				g.Expect(health.Capabilities.Definitions).To(Equal(test.definitions), test.tag)
				g.Expect(health.Capabilities.Policies).To(Equal(test.policies), test.tag)
				g.Expect(health.Cluster.Strong()).To(Equal(test.policies), test.tag)
				g.Expect(health.Cluster.Is(cluster)).To(BeTrue())
			}).WithTimeout(rabbittest.Within).WithPolling(50 * time.Millisecond).Should(Succeed())
			if err := connection.Apply(t.Context(), rabbittest.OneQueue); err != nil {
				t.Error(err)
			}
		}
	})
}
