package change

import (
	"errors"
	"strings"
	"testing"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/vhost"
)

func TestLongNamesOfArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("n", 256)
	err := declareQueue(topology.Queue{Name: "q", Arguments: vhost.Arguments{name: 1}}).fits(amqpconn.UsualFrameMax)
	if !errors.Is(err, brokererr.ErrTooLarge) || !strings.Contains(err.Error(), "the name of an argument has 256 bytes, and AMQP allows 255") {
		t.Error(err)
	}
}
