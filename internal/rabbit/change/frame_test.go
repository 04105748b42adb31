package change_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/change"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/rabbittest"
)

// Names and arguments that fill a frame to the last byte are declared and bound. One byte more is refused before it is sent, because the
// broker would close the connection.
func TestArgumentsFitIntoAFrame(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		connection := rabbittest.Connected(t, rabbittest.ConfigOf(vh), nil)
		link := connection.Channels.Link
		vh.DeclareQueue("main", nil)
		arguments := vhost.Arguments{
			"x-queue-type": "classic", "n": int64(-7), "yes": true, "f": 1.5, "none": nil,
			"table": map[string]any{"list": []any{int64(1), "ü", map[string]any{"inner": false}}},
		}
		arguments["pad"] = ""
		padded := func(size, more int) vhost.Arguments {
			padded := maps.Clone(arguments)
			padded["pad"] = strings.Repeat("x", amqpconn.UsualFrameMax-size+more)
			return padded
		}
		queue := topology.Queue{Name: strings.Repeat("q", 255), Arguments: arguments}
		binding := topology.Binding{Source: "amq.headers", Destination: "main", RoutingKey: strings.Repeat("k", 255), Arguments: arguments}
		for more, reason := range []error{nil, brokererr.ErrTooLarge} {
			large, wide := queue, binding
			large.Arguments, wide.Arguments = padded(change.QueueFrame(queue), more), padded(change.BindingFrame(binding), more)
			for _, changes := range []topology.Topology{{Queues: []topology.Queue{large}}, {Bindings: []topology.Binding{wide}}} {
				err := connection.Apply(t.Context(), changes)
				if reason == nil && err != nil {
					t.Errorf("%.300v", err)
				}
				if reason != nil {
					rabbittest.MustBe(t, err, reason, `queue "`, "1 more than fit into an AMQP frame", `shorten "pad"`)
				}
			}
		}
		removal := rabbit.Removal{Bindings: []topology.Binding{{Source: "amq.headers", Destination: "main", Arguments: padded(change.BindingFrame(binding), 1000)}}}
		rabbittest.MustBe(t, connection.Remove(t.Context(), connection.Health().Cluster.Key(), removal), brokererr.ErrTooLarge, "than fit into an AMQP frame")
		if connection.Channels.Link != link {
			t.Error("the connection was closed")
		}
	})
}
