package rabbit_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/netfault"
	"github.com/warren-mq/warren/test/rabbittest"
)

func TestConnectionsThatAreRefused(t *testing.T) {
	t.Parallel()
	none := func(*rabbit.Config, *brokers.VHost, *testing.T) {}
	as := func(granted bool, tags ...string) func(*rabbit.Config, *brokers.VHost, *testing.T) {
		return func(config *rabbit.Config, vh *brokers.VHost, t *testing.T) {
			user := vh.Broker.NewUser(t, tags...)
			if granted {
				vh.Grant(user, ".*", ".*", ".*")
			}
			config.Username, config.Password = user.Username, user.Password
		}
	}
	cases := map[string]struct {
		change    func(*rabbit.Config, *brokers.VHost, *testing.T)
		alter     func(*rabbit.Config)
		reason    error
		says      []string
		otherwise bool // works over the protocol that is not refused
	}{
		"wrong password": {
			none, func(c *rabbit.Config) { c.Password = "is wrong" }, brokererr.ErrAuthentication,
			[]string{"AMQP: authentication failed: user \"guest\"", "management API, GET /api/whoami: authentication failed: user \"guest\""},
			false,
		},
		"no such vhost": {
			none, func(c *rabbit.Config) { c.VHost = "no/such %" }, brokererr.ErrVHostNotFound,
			[]string{"AMQP: vhost not found", "management API", `"no/such %"`},
			false,
		},
		"no access to the vhost": {
			as(false, "management"), nil, brokererr.ErrAccessRefused, []string{"AMQP: access refused: access to vhost 'test vhost"}, false,
		},
		"administrator without access to the vhost": {
			as(false, "administrator"), nil, brokererr.ErrAccessRefused, []string{"AMQP: access refused: access to vhost 'test vhost"}, true,
		},
		"the vhost has reached its limit of connections": {
			func(_ *rabbit.Config, vh *brokers.VHost, _ *testing.T) { vh.Limit("max-connections", 0) }, nil,
			brokererr.ErrUnreachable,
			[]string{"AMQP: broker unreachable: access to vhost 'test vhost", "connection limit (0) is reached"},
			true,
		},
		"no tag": {as(true), nil, brokererr.ErrAccessRefused, []string{"management API, GET /api/whoami: access refused", "lacks the tag management"}, true},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
				config := rabbittest.ConfigOf(vh)
				test.change(&config, vh, t)
				if test.alter != nil {
					test.alter(&config)
				}
				connection := rabbittest.Opened(t, config, nil)
				rabbittest.AwaitHealth(t, connection, rabbittest.FailsWith(test.reason, test.says...))
				rabbittest.AwaitHealth(t, connection, func(g Gomega, health rabbit.Health) {
					g.Expect(!health.SyncedAt.IsZero() || health.Connected).To(Equal(test.otherwise), "%+v", health)
				})
			})
		})
	}
}

// status.capabilities lists what the version and the user's tags allow: definitions needs the tag administrator, policies the tag
// policymaker or administrator.
func TestCapabilitiesByTag(t *testing.T) {
	cases := map[string]management.Capabilities{
		"management":    {},
		"policymaker":   {Policies: true},
		"monitoring":    {},
		"administrator": {Policies: true, Definitions: true},
	}
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		for tag, want := range cases {
			t.Run(tag, func(t *testing.T) {
				user := vh.Broker.NewUser(t, tag)
				vh.Grant(user, "", "", "")
				config := rabbittest.ConfigOf(vh)
				config.Username, config.Password = user.Username, user.Password
				health := rabbittest.Connected(t, config, nil).Health()
				want.DelayedRedelivery, want.Statistics = strings.HasPrefix(health.Version, "4.3."), true
				if health.Capabilities != want || health.Version != vh.Broker.Version {
					t.Errorf("%+v, should be able to %+v", health, want)
				}
			})
		}
	})
}

// The capability events means that the broker announces changes in this vhost. The event exchange is in one vhost of the broker, by
// default "/".
func TestEventsAreAnnouncedInTheirVHostOnly(t *testing.T) {
	t.Parallel()
	for _, broker := range brokers.All(t) {
		t.Run(broker.Version, func(t *testing.T) {
			t.Parallel()
			config := rabbittest.ConfigOf(&brokers.VHost{Broker: broker, Name: "/"})
			connection := rabbittest.Connected(t, config, nil)
			if !connection.Health().Capabilities.Events {
				t.Error("the plugin is enabled, its exchange should be seen")
			}
			observed, _ := connection.Observe(vhost.Selection{Exchanges: []string{management.EventExchange}})
			if observed.Exchanges[management.EventExchange].Type != "topic" {
				t.Errorf("%+v", observed.Exchanges)
			}
		})
	}
}

// A user who loses the tag administrator reads the vhost by listings from then on.
func TestLosingTheTagAdministrator(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		user := vh.Broker.NewUser(t, "administrator")
		vh.Grant(user, ".*", ".*", ".*")
		config := rabbittest.ConfigOf(vh)
		config.Username, config.Password = user.Username, user.Password
		connection := rabbittest.Connected(t, config, nil)
		vh.Broker.SetTags(t, user, "management")
		vh.DeclareQueue("q", nil)
		if now := rabbittest.Seen(t, connection); len(now.Queues) != 1 {
			t.Errorf("%+v", now.Queues)
		}
		if connection.Health().Capabilities.Definitions {
			t.Error("the capability should be gone")
		}
	})
}

// A vhost whose name is not ASCII is always read by listings, because RabbitMQ 4.0 to 4.3 fails to return its definitions. If this test
// fails, definitionsWork is no longer needed.
func TestDefinitionsOfVHostsBeyondASCII(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, own *brokers.VHost) {
		vh := own.Broker.NewVHostNamed(t, "größe ")
		connection := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil)
		if connection.Health().Capabilities.Definitions {
			t.Error("definitions should not be read")
		}
		_, _, err := snapshot.ReadDefinitions(t.Context(), connection.ReadAPI, "", nil)
		if works := err == nil; works != strings.HasPrefix(vh.Broker.Version, "3.") {
			t.Errorf("definitions: %v", err)
		}
	})
}

// status.brokerVersion is the lowest version of all nodes. The user needs the tag monitoring or administrator to read it. During an
// upgrade the nodes differ, and the last node may change without closing our connections.
func TestVersionIsThatOfTheLowestNode(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	config := rabbittest.DeafConfigOf(t, vh)
	proxy := netfault.NewHTTPProxy(t, config.ManagementURI, netfault.HTTPOptions{})
	config.ManagementURI = proxy.URI
	nodes := func(body string) {
		proxy.Change(func(response *http.Response) error {
			if strings.HasSuffix(response.Request.URL.Path, "/nodes") {
				netfault.Replace(response, body)
			}
			return nil
		})
	}
	nodes(`[{"rabbitmq_version": "4.3.0"}, {"applications": [{"name": "os_mon", "version": "2.1"}, {"name": "rabbit", "version": "4.2.9"}]}, {"applications": []}]`)
	connection := rabbittest.Connected(t, config, nil)
	if health := connection.Health(); health.Version != "4.2.9" || health.Capabilities.DelayedRedelivery {
		t.Errorf("%+v", health)
	}
	nodes(fmt.Sprintf(`[{"rabbitmq_version": %q}]`, vh.Broker.Version))
	rabbittest.Seen(t, connection)
	if health := connection.Health(); health.Version != vh.Broker.Version || !health.Capabilities.DelayedRedelivery {
		t.Errorf("%+v", health)
	}
	proxy.Requests()
	rabbittest.Seen(t, connection)
	if requests := ofObjects(proxy.Requests()); len(requests) != 1 {
		t.Errorf("when all nodes are alike, nothing is asked: %+v", requests)
	}
}

func TestOddVHostsAndPrefixes(t *testing.T) {
	t.Parallel()
	const prefix = "/rabbit%20mq/%C3%BC"
	for name, prefix := range map[string]string{"a/b": "", "100%41": "", "größe & co": prefix, "a+b;c=d?e#f": "", "../x": prefix, ".": ""} {
		for _, broker := range brokers.All(t) {
			t.Run(name+" at "+prefix+" "+broker.Version, func(t *testing.T) {
				if prefix == "" {
					deadline.InTestAll(t)
				}
				t.Parallel()
				vh := broker.NewVHostNamed(t, name)
				config := rabbittest.ConfigOf(vh)
				proxy := netfault.NewHTTPProxy(t, config.ManagementURI, netfault.HTTPOptions{Prefix: prefix})
				config.ManagementURI = proxy.URI + "/" // a slash at the end is ignored
				connection := rabbittest.Connected(t, config, nil)
				if err := connection.Apply(t.Context(), rabbittest.OneQueue); err != nil {
					t.Fatal(err)
				}
				rabbittest.Seen(t, connection)
				user := vh.Broker.NewUser(t, "management")
				vh.Grant(user, "", "", "")
				config.Username, config.Password = user.Username, user.Password
				if now := rabbittest.Seen(t, rabbittest.Connected(t, config, nil)); len(now.Queues) != 1 {
					t.Errorf("%+v", now.Queues)
				}
				vh.Purge(rabbittest.OneQueue.Queues[0].Name) // fails if this vhost has no such queue
			})
		}
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	all, certificates := brokers.AllTLS(t)
	foreign := selfSigned(t)
	for _, broker := range all {
		t.Run(broker.Version, func(t *testing.T) {
			t.Parallel()
			config := rabbittest.ConfigOf(broker.NewVHost(t))
			cases := map[string]struct {
				change func(*rabbit.Config)
				says   string // the error; empty if there is none
			}{
				"CA":          {func(c *rabbit.Config) { c.CA = certificates.CA }, ""},
				"server name": {func(c *rabbit.Config) { c.CA, c.ServerName = certificates.CA, "localhost" }, ""},
				"client certificate": {func(c *rabbit.Config) {
					c.CA, c.ClientCert, c.ClientKey = certificates.CA, certificates.ClientCert, certificates.ClientKey
				}, ""},
				"no CA, no check":   {func(c *rabbit.Config) { c.InsecureSkipVerify = true }, ""},
				"no CA":             {func(*rabbit.Config) {}, "unknown authority"},
				"wrong CA":          {func(c *rabbit.Config) { c.CA = foreign.cert }, "unknown authority"},
				"wrong server name": {func(c *rabbit.Config) { c.CA, c.ServerName = certificates.CA, "elsewhere.example" }, "elsewhere.example"},
			}
			for name, test := range cases {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					config := config
					test.change(&config)
					if test.says == "" {
						if err := rabbittest.Connected(t, config, nil).Apply(t.Context(), rabbittest.OneQueue); err != nil {
							t.Error(err)
						}
						return
					}
					rabbittest.AwaitHealth(t, rabbittest.Opened(t, config, nil), rabbittest.FailsWith(brokererr.ErrUnreachable, "AMQP: ", "management API", test.says))
				})
			}
		})
	}
}

// Warren presents a client certificate in addition to user and password.
func TestClientCertificatesAreShown(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	server, client := selfSigned(t), selfSigned(t)
	known := x509.NewCertPool()
	known.AppendCertsFromPEM(client.cert)
	identity, err := tls.X509KeyPair(server.cert, server.key)
	if err != nil {
		t.Fatal(err)
	}
	demanding := &tls.Config{
		Certificates: []tls.Certificate{identity}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: known, MinVersion: tls.VersionTLS12,
	}
	config := rabbittest.ConfigOf(vh)
	plain := strings.TrimPrefix(config.AMQPURI, "amqp://")
	config.AMQPURI = "amqps://" + netfault.Listen(t, func(socket net.Conn) { pipe(tls.Server(socket, demanding), plain) })
	config.ManagementURI = netfault.NewHTTPProxy(t, config.ManagementURI, netfault.HTTPOptions{TLS: demanding}).URI
	config.CA = server.cert
	rabbittest.AwaitHealth(t, rabbittest.Opened(t, config, nil), rabbittest.FailsWith(brokererr.ErrUnreachable, "AMQP: ", "management API", "certificate"))
	config.ClientCert, config.ClientKey = client.cert, client.key
	if err := rabbittest.Connected(t, config, nil).Apply(t.Context(), rabbittest.OneQueue); err != nil {
		t.Error(err)
	}
}

// amqps:// and https:// use TLS 1.2 or newer: Warren does not connect to a server that supports only TLS 1.1.
func TestTLS12OrNewer(t *testing.T) {
	t.Parallel()
	server := selfSigned(t)
	identity, err := tls.X509KeyPair(server.cert, server.key)
	if err != nil {
		t.Fatal(err)
	}
	old := &tls.Config{Certificates: []tls.Certificate{identity}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	config := rabbittest.ConfigOf(brokers.Newest(t).NewVHost(t))
	plain := strings.TrimPrefix(config.AMQPURI, "amqp://")
	config.AMQPURI = "amqps://" + netfault.Listen(t, func(socket net.Conn) { pipe(tls.Server(socket, old), plain) })
	config.ManagementURI = netfault.NewHTTPProxy(t, config.ManagementURI, netfault.HTTPOptions{TLS: old}).URI
	config.CA = server.cert
	rabbittest.AwaitHealth(t, rabbittest.Opened(t, config, nil), rabbittest.FailsWith(brokererr.ErrUnreachable, "AMQP: ", "management API", "protocol version"))
}

// pipe copies between a client and a server until one of them closes.
func pipe(client net.Conn, address string) {
	server, err := net.Dial("tcp", address)
	if err != nil {
		_ = client.Close()
		return
	}
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		go func() {
			_, _ = io.Copy(way[0], way[1])
			_, _ = client.Close(), server.Close()
		}()
	}
}

// No error, and no field of one when printed, contains a secret.
func TestErrorsContainNoSecret(t *testing.T) {
	t.Parallel()
	vh := brokers.Newest(t).NewVHost(t)
	const password = "s3cret/p@ss wörd%"
	spellings := []string{password, "s3cret", "wörd", "w%C3%B6rd"}
	mean := netfault.NewHTTPProxy(t, vh.Broker.ManagementURI, netfault.HTTPOptions{})
	mean.Change(func(response *http.Response) error { // a server that repeats the credentials of the request
		response.StatusCode = http.StatusInternalServerError
		netfault.Replace(response, fmt.Sprintf(`{"error":"e","reason":"no %s at amqp://guest:s3cret%%2Fp%%40ss%%20w%%C3%%B6rd%%25@host/"}`, password))
		return nil
	})
	right := rabbittest.ConfigOf(vh)
	cases := map[string]func(*rabbit.Config){
		"wrong password":    func(*rabbit.Config) {},
		"no server listens": func(c *rabbit.Config) { c.AMQPURI, c.ManagementURI = "amqp://127.0.0.1:1", "http://127.0.0.1:1" },
		"no such host": func(c *rabbit.Config) {
			c.AMQPURI, c.ManagementURI = "amqp://no.such.invalid", "http://no.such.invalid"
		},
		"no TLS there": func(c *rabbit.Config) {
			c.AMQPURI, c.ManagementURI = strings.Replace(c.AMQPURI, "amqp", "amqps", 1), strings.Replace(c.ManagementURI, "http", "https", 1)
		},
		"wrong protocols":         func(c *rabbit.Config) { c.AMQPURI, c.ManagementURI = "amqp"+c.ManagementURI[4:], "http"+c.AMQPURI[4:] },
		"a server that quotes it": func(c *rabbit.Config) { c.ManagementURI = mean.URI },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := right
			config.Password, config.ClientKey = password, nil
			change(&config)
			var mu sync.Mutex
			var said strings.Builder
			logger := funcr.New(func(prefix, args string) {
				mu.Lock()
				defer mu.Unlock()
				said.WriteString(prefix + args)
			}, funcr.Options{})
			logger.Info("configuration", "config", config)
			connection, err := rabbittest.OpenWith(config, logger, func(snapshot.Notice) {}, hasty)
			if err != nil {
				t.Fatal(err)
			}
			rabbittest.AwaitHealth(t, connection, func(g Gomega, health rabbit.Health) {
				g.Expect(health.Err).To(And(MatchError(ContainSubstring("AMQP")), MatchError(ContainSubstring("management API"))))
			})
			errs := []error{connection.Health().Err, connection.Refresh(t.Context()), connection.Apply(t.Context(), rabbittest.OneQueue)}
			connection.Close()
			for _, err := range errs {
				fmt.Fprintf(&said, "%v %+v %#v %q ", err, err, err, err)
			}
			fmt.Fprintf(&said, "%v %+v %#v %s %q %v", config, config, config, config, config, &config)
			for _, spelling := range spellings {
				if strings.Contains(said.String(), spelling) {
					t.Errorf("%q is in: %s", spelling, said.String())
				}
			}
		})
	}
}
