package rabbit

import (
	"maps"
	"strings"
	"testing"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
)

// Names and arguments that fill a frame to the last byte are declared and bound. One byte more is refused before it is sent, because the
// broker would close the connection.
func TestArgumentsFitIntoAFrame(t *testing.T) {
	each(t, func(t *testing.T, vh *brokers.VHost) {
		connection := connected(t, configOf(vh), nil)
		link := connection.channels.Link
		vh.DeclareQueue("main", nil)
		arguments := vhost.Arguments{
			"x-queue-type": "classic", "n": int64(-7), "yes": true, "f": 1.5, "none": nil,
			"table": map[string]any{"list": []any{int64(1), "ü", map[string]any{"inner": false}}},
		}
		padded := func(operation operation, more int) vhost.Arguments {
			padded := vhost.Arguments{"pad": ""}
			maps.Copy(padded, arguments)
			size := frameOverhead + operation.overhead() + encodedTable(padded)
			padded["pad"] = strings.Repeat("x", amqpconn.UsualFrameMax-size+more)
			return padded
		}
		queue := topology.Queue{Name: strings.Repeat("q", 255), Arguments: arguments}
		binding := topology.Binding{Source: "amq.headers", Destination: "main", RoutingKey: strings.Repeat("k", 255), Arguments: arguments}
		for more, reason := range []error{nil, brokererr.ErrTooLarge} {
			large, wide := queue, binding
			large.Arguments, wide.Arguments = padded(declareQueue(queue), more), padded(bind(binding), more)
			for _, changes := range []topology.Topology{{Queues: []topology.Queue{large}}, {Bindings: []topology.Binding{wide}}} {
				err := connection.Apply(t.Context(), changes)
				if reason == nil && err != nil {
					t.Errorf("%.300v", err)
				}
				if reason != nil {
					mustBe(t, err, reason, `queue "`, "1 more than fit into a frame of AMQP", `shorten "pad"`)
				}
			}
		}
		removal := Removal{Bindings: []topology.Binding{{Source: "amq.headers", Destination: "main", Arguments: padded(bind(binding), 1000)}}}
		mustBe(t, connection.Remove(t.Context(), connection.Health().Cluster.Key(), removal), brokererr.ErrTooLarge, "than fit into a frame")
		if connection.channels.Link != link {
			t.Error("the connection was closed")
		}
	})
}

func TestLongNamesOfArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("n", 256)
	err := declareQueue(topology.Queue{Name: "q", Arguments: vhost.Arguments{name: 1}}).fits(amqpconn.UsualFrameMax)
	mustBe(t, err, brokererr.ErrTooLarge, "the name of an argument has 256 bytes, more than the 255 of AMQP")
}
