package rabbit

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/hostile"
)

// What is missing for the first time stays until the vhost was read once more.
func TestMissingOnceIsNotGone(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		lose func(*snapshot)
		kept bool
	}{
		"nothing":  {func(*snapshot) {}, false},
		"queue":    {func(s *snapshot) { delete(s.queues, "r") }, true},
		"exchange": {func(s *snapshot) { delete(s.exchanges, "y") }, true},
		"binding": {func(s *snapshot) {
			s.bindingsFrom["x"], s.bindingsTo["q"] = slices.Delete(s.bindingsFrom["x"], 1, 2), s.bindingsTo["q"][1:]
		}, true},
		"binding with arguments": {func(s *snapshot) {
			s.bindingsFrom["y"] = s.bindingsFrom["y"][1:]
			delete(s.bindingsTo, "r")
		}, true},
		"policy":          {func(s *snapshot) { s.policies = s.policies[1:] }, true},
		"operator policy": {func(s *snapshot) { s.policies = s.policies[:1] }, true},
		"everything": {func(s *snapshot) {
			mine := s.bindingsTo["mine"][0]
			*s = *newSnapshot(0, 0)
			s.queues["mine"] = topology.ObservedQueue{Exclusive: true}
			s.addBinding(mine)
		}, true},
		"another cluster": {func(s *snapshot) { *s = *newSnapshot(0, 0); s.cluster = "another" }, false},
		"exclusive queue": {func(s *snapshot) {
			delete(s.queues, "mine")
			delete(s.bindingsTo, "mine")
			s.bindingsFrom["x"] = s.bindingsFrom["x"][1:]
		}, false},
	}
	vhost := func() *snapshot {
		s := some()
		s.queues["mine"] = topology.ObservedQueue{Exclusive: true}
		s.addBinding(topology.ObservedBinding{Source: "x", Destination: "mine", RoutingKey: "c"})
		s.sort()
		return s
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lacking := func() *snapshot {
				s := vhost()
				test.lose(s)
				return s
			}
			var s store
			s.replace(vhost(), "")
			_, again := s.replace(lacking(), "")
			want := lacking()
			if test.kept {
				want = vhost()
			}
			if again != test.kept {
				t.Errorf("is to be read again: %v", again)
			}
			if difference := cmp.Diff(want, s.current, compareSnapshots); difference != "" {
				t.Errorf("after one reading, wanted (-), is (+):\n%s", difference)
			}
			if _, again := s.replace(lacking(), ""); again {
				t.Error("is to be read a third time")
			}
			if difference := cmp.Diff(lacking(), s.current, compareSnapshots); difference != "" {
				t.Errorf("after two readings, wanted (-), is (+):\n%s", difference)
			}
		})
	}
}

// A policy that leads dead letters to an exchange is replaced by a binding that does, after the bindings were read and
// before the policies are. The exchange is in use all the time, and at no time seems not to be.
func TestWhatMovesDuringALookIsSeen(t *testing.T) {
	t.Parallel()
	moved := false
	server := hostile.NewManagement(t, func(w http.ResponseWriter, r *http.Request) bool {
		path := strings.TrimPrefix(r.URL.EscapedPath(), "/api/")
		switch {
		case strings.HasPrefix(path, "queues/"):
			_, _ = io.WriteString(w, `[{"name": "q", "type": "quorum", "durable": true}]`)
		case strings.HasPrefix(path, "exchanges/") && !r.URL.Query().Has("page"):
			_, _ = io.WriteString(w, `[{"name": "dlx", "type": "fanout"}, {"name": "before", "type": "fanout"}]`)
		case strings.HasPrefix(path, "bindings/") && moved:
			_, _ = io.WriteString(w, `[{"source": "before", "destination": "dlx", "destination_type": "exchange"}]`)
		case strings.HasPrefix(path, "policies/") && !moved:
			_, _ = io.WriteString(w, `[{"name": "p", "pattern": "q", "apply-to": "queues", "definition": {"dead-letter-exchange": "dlx"}}]`)
		default:
			return false
		}
		return true
	})
	server.Tags = "management"
	management := managementAt(t, server.URI, nil)
	var s store
	leads := func() bool { return len(s.current.policies) > 0 || len(s.current.bindingsFrom["before"]) > 0 }
	read := func() (again bool) {
		fresh, err := management.observeListings(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, again = s.replace(fresh, "")
		if !leads() {
			t.Error("nothing leads to the exchange")
		}
		return again
	}
	if again := read(); again {
		t.Error("a first look has nothing to doubt")
	}
	management.client.Transport = switching{management.client.Transport, "/api/policies/", &moved}
	if again := read(); !again {
		t.Error("the policy went missing and is not looked for")
	}
	if again := read(); again || len(s.current.policies) > 0 {
		t.Error("the policy is still believed to be there")
	}
}

// switching sets a flag right before the first request to a path.
type switching struct {
	http.RoundTripper
	path string
	flag *bool
}

func (s switching) RoundTrip(request *http.Request) (*http.Response, error) {
	if strings.HasPrefix(request.URL.EscapedPath(), s.path) {
		*s.flag = true
	}
	return s.RoundTripper.RoundTrip(request)
}

// Queues that come and go in front of others move these from page to page: listings must not be read in pages.
func TestListingsMissNothingThatStays(t *testing.T) {
	t.Parallel()
	vhost := brokers.Newest(t).NewVHost(t)
	lesser := vhost.Broker.NewUser(t, "management")
	vhost.Grant(lesser, ".*", ".*", ".*")
	config := configOf(vhost)
	config.Username, config.Password = lesser.Username, lesser.Password
	connection := connected(t, config, nil)
	many := topology.Topology{}
	for i := range 1001 { // classic queues, for these come into being fast
		many.Queues = append(many.Queues, topology.Queue{Name: fmt.Sprintf("q%04d", i), Arguments: topology.Arguments{"x-queue-type": "classic"}})
	}
	if err := connection.Apply(t.Context(), many); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan error)
	go func() {
		stopped <- connection.channels.do(t.Context(), func(channel *amqp.Channel) error { return churn(channel, stop) })
	}()
	for range 8 {
		now := seen(t, connection)
		for _, queue := range many.Queues {
			if _, exists := now.queues[queue.Name]; !exists {
				t.Fatalf("queue %q is not seen", queue.Name)
			}
		}
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// churn has low names go and high names come.
func churn(channel *amqp.Channel, stop chan struct{}) error {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return nil
		default:
		}
		if _, err := channel.QueueDeclare(fmt.Sprintf("a%06d", 999999-i), false, false, true, false, nil); err != nil {
			return err
		}
		if _, err := channel.QueueDeclare(fmt.Sprintf("z%06d", i), false, false, true, false, nil); err != nil {
			return err
		}
		if _, err := channel.QueueDelete(fmt.Sprintf("a%06d", 999999-i), false, false, false); err != nil {
			return err
		}
	}
}
