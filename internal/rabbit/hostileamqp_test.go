package rabbit_test

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/deadline"
	"github.com/warren-mq/warren/test/hostile"
	"github.com/warren-mq/warren/test/rabbittest"
)

// An AMQP server that misbehaves costs its own connection, and neither the memory of the process nor another connection. It may have a
// management API that shows everything the AMQP server has, so that the two match, or one that shows nothing. Not parallel, because it
// measures the memory of the process.
func TestHostileAMQPCostsItsOwnConnectionOnly(t *testing.T) {
	vhost := brokers.Newest(t).NewVHost(t)
	hurried := rabbittest.Unpaced()
	hurried.Request, hurried.FirstRetry, hurried.LastRetry = 2*time.Second, 50*time.Millisecond, 200*time.Millisecond
	hurried.Match, hurried.Statistics = 50*time.Millisecond, 50*time.Millisecond
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // `make test` collects garbage less often
	before := inUse()

	bad, servers := map[string]*rabbittest.Connection{}, map[string]*hostile.AMQP{}
	for name, way := range hostile.AMQPWays() {
		for shows, misbehave := range map[string]func(http.ResponseWriter, *http.Request) bool{
			"matches": nil, "does not match": hostile.At("queues", http.NotFound),
		} {
			name, server := fmt.Sprintf("%s, and %s", name, shows), hostile.NewAMQP(t, way)
			connection, err := rabbittest.OpenWith(rabbit.Config{
				AMQPURI: server.URI, ManagementURI: hostile.NewManagement(t, misbehave).URI, Username: "guest", Password: "guest", VHost: "/",
				ResyncInterval: time.Second,
			}, logr.Discard(), func(snapshot.Notice) {}, hurried)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(connection.Close)
			bad[name], servers[name] = connection, server
		}
	}
	good := rabbittest.Connected(t, rabbittest.ConfigOf(vhost), nil)
	highest := uint64(0)
	for name, server := range servers {
		NewWithT(t).Eventually(func() int { highest = max(highest, inUse()); return server.Sessions() }).WithTimeout(rabbittest.Within).
			WithPolling(10*time.Millisecond).Should(BeNumerically(">", 0), name)
	}
	NewWithT(t).Consistently(func() uint64 { highest = max(highest, inUse()); return highest }).WithTimeout(3 * time.Second).
		Should(BeNumerically("<", before+256*management.Mebibyte))
	if err := good.Apply(t.Context(), topology.Topology{Queues: []topology.Queue{{Name: "q"}}}); err != nil {
		t.Error(err)
	}
	t.Logf("%d bad connections took %d MiB at most", len(bad), (highest-before)/management.Mebibyte)

	var closing sync.WaitGroup
	for name, connection := range bad {
		closing.Go(func() {
			began := time.Now()
			connection.Close()
			if took := time.Since(began); took > deadline.For(2*time.Second) {
				t.Errorf("%s: closing took %v", name, took)
			}
		})
	}
	closing.Wait()
}
