package recreate

import (
	"net/url"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/hostile"
)

// Otherwise the swap would never end, while the bindings lead to the hold and the messages of the tier are held back.
func TestATierIsReleasedAtABrokerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	server := hostile.NewAMQP(t, hostile.AMQPWays()["never answers a cancel, and sends heartbeats"])
	uri, err := url.Parse(server.URI)
	if err != nil {
		t.Fatal(err)
	}
	connection, err := amqpconn.Dial(t.Context(), amqpconn.DialOptions{
		URI: uri, Username: "guest", Password: "guest", VHost: "/", LargestBody: discardBodies, Timeout: deadline.For(thawLimit),
	})
	if err != nil {
		t.Fatal(err)
	}
	f := &freezer{Recreator: New(Settings{}, versioned{version: "4.3.6"}, nil, nil, nil), connection: connection}
	if err := f.hold("orders.retry"); err != nil {
		t.Fatal(err)
	}
	thawed := make(chan struct{})
	go func() {
		f.thaw()
		close(thawed)
	}()
	NewWithT(t).Eventually(thawed).WithTimeout(deadline.For(thawLimit)).Should(BeClosed())
}
