package change_test

import (
	"errors"
	"maps"
	"testing"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/rabbittest"
)

// When a queue is declared again, a broker compares exactly the arguments that the table of arguments marks as compared.
func TestBrokersCompareTheArgumentsOfTheTable(t *testing.T) {
	values := map[string][2]any{ // two values for each argument that is not a number
		vhost.ArgQueueType:            {"quorum", "classic"},
		vhost.ArgOverflow:             {"reject-publish", "drop-head"},
		vhost.ArgSingleActiveConsumer: {true, false},
		vhost.ArgLeaderLocator:        {"balanced", "client-local"},
		vhost.ArgDeadLetterExchange:   {"one", "other"},
		vhost.ArgDeadLetterRoutingKey: {"one", "other"},
		vhost.ArgDeadLetterStrategy:   {"at-least-once", "at-most-once"},
		vhost.ArgDelayedRetryType:     {"all", "failed"},
	}
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		version, err := vhost.ParseVersion(vh.Broker.Version)
		if err != nil {
			t.Fatal(err)
		}
		connection := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil)
		for _, row := range topology.ArgumentTable {
			if !version.AtLeast(row.Since) {
				continue // such a broker stores any argument
			}
			t.Run(row.Name, func(t *testing.T) {
				pair, special := values[row.Name]
				if !special {
					pair = [2]any{int64(1), int64(2)}
				}
				declare := func(value any) error {
					arguments := rabbittest.Quorum(vhost.Arguments{vhost.ArgDeadLetterExchange: "dlx"}) // which a dead-letter key needs
					maps.Copy(arguments, vhost.Arguments{row.Name: value})
					return connection.Apply(t.Context(), topology.Topology{Queues: []topology.Queue{{Name: row.Name, Arguments: arguments}}})
				}
				if err := declare(pair[0]); err != nil {
					t.Fatal(err)
				}
				err := declare(pair[1])
				if refused := errors.Is(err, brokererr.ErrPreconditionFailed); refused != version.AtLeast(row.Compared) {
					t.Errorf("declared with %v and again with %v: %v; the table says compared from %s on", pair[0], pair[1], err, row.Compared)
				}
			})
		}
	})
}
