package consumer_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/consumer/internal/memory"
	"github.com/warren-mq/warren/consumer/internal/transport"
)

// inVirtualHost is a broker whose URI names a virtual host.
type inVirtualHost struct {
	*memory.Broker

	name string
}

type connectionTo struct {
	transport.Connection

	virtualHost string
}

func (c connectionTo) VirtualHost() string { return c.virtualHost }

func (b inVirtualHost) Dial(ctx context.Context, name string, blocked func(bool)) (transport.Connection, error) {
	made, err := b.Broker.Dial(ctx, name, blocked)
	return connectionTo{made, b.name}, err
}

const otherVirtualHost = "The contract names another virtual host"

func TestAContractOfAnotherVirtualHost(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		uri, contract string
		warned        []int // after the connect, a lost channel, a lost connection, and a contract with the right virtual host
		names         string
	}{
		"the same":                       {"shop", "shop", []int{0, 0, 0, 0}, ""},
		"another one":                    {"shop", "/", []int{1, 1, 2, 2}, "queue=orders contract_virtual_host=/ uri_virtual_host=shop"},
		"differs by upper case":          {"shop", "Shop", []int{1, 1, 2, 2}, "queue=orders contract_virtual_host=Shop uri_virtual_host=shop"},
		"a broker without virtual hosts": {"", "/", []int{0, 0, 0, 0}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "contract.json")
			synctest.Test(t, func(t *testing.T) {
				current := contract.Default("orders")
				b := inVirtualHost{memory.New(current), test.uri}
				t.Cleanup(b.Close)
				current.VirtualHost = test.contract
				writeContract(t, path, current)
				log := &record{}
				made, err := consumer.New(consumer.NewConn(nil, withTransport(b)), contract.File(path),
					func(context.Context, *consumer.Message[string]) error { return nil },
					consumer.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- made.Run(ctx) }()
				var warned []int
				for _, step := range []func(){
					func() {},
					func() {
						b.Delete("orders")
						b.Declare(contract.Default("orders"))
					},
					b.Cut,
					func() {
						current.VirtualHost = "shop"
						writeContract(t, path, current)
					},
				} {
					step()
					pass(time.Minute)
					equal(t, "state", consumer.StateDelivering, made.Health().State)
					warned = append(warned, log.count(otherVirtualHost))
				}
				equal(t, "warnings", test.warned, warned)
				if test.names != "" {
					equal(t, "lines with the names", test.warned[3], log.count(test.names))
				}
				cancel()
				equal(t, "Run", nil, <-ended)
			})
		})
	}
}
