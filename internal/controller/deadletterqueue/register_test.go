package deadletterqueue

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/internal/vhost"
)

func turnAt(namespace string) Turn {
	return Turn{
		Connection: client.ObjectKey{Namespace: namespace, Name: "default"},
		Location:   ownership.Location{Cluster: vhost.Cluster{Name: "a"}, VHost: "/"}, Queue: "orders.dlq",
	}
}

func user(kind, name string) User {
	return User{kind, client.ObjectKey{Namespace: "shop", Name: name}}
}

// Jobs and requests of the API have the turn in the order in which they came, and one at a time.
func TestUsersOfAQueueTakeTurns(t *testing.T) {
	t.Parallel()
	register := &Register{}
	var granted []string
	join := func(kind, name string) *Place {
		return register.Join(user(kind, name), turnAt("shop"), func() { granted = append(granted, name) })
	}
	look, job, gone, last := join("", "look"), join("Redrive", "job"), join("Purge", "gone"), join("", "last")
	_, waits := look.Waits()
	topologytest.Equal(t, "the first waits", false, waits)
	rival, _ := job.Waits()
	topologytest.Equal(t, "the second waits for", user("", "look"), rival)
	gone.Leave()
	topologytest.Equal(t, "granted while the first has the turn", []string(nil), granted)
	look.Leave()
	look.Leave()
	topologytest.Equal(t, "granted", []string{"job"}, granted)
	rival, _ = last.Waits()
	topologytest.Equal(t, "the last waits for", user("Redrive", "job"), rival)
	job.Leave()
	topologytest.Equal(t, "granted at the end", []string{"job", "last"}, granted)
	last.Leave()
	topologytest.Equal(t, "places", 0, len(register.places))
}

func TestUsersAreNamedInTheirNamespaceOnly(t *testing.T) {
	t.Parallel()
	for want, user := range map[string]User{
		`a request of the dead-letter API looks at queue "q"`:      user("", "orders"),
		`Redrive "a" takes messages of queue "q"`:                  user("Redrive", "a"),
		`a Purge in another namespace takes messages of queue "q"`: {"Purge", client.ObjectKey{Namespace: "other", Name: "a"}},
	} {
		topologytest.Equal(t, "words", want, user.Uses("q", "shop"))
	}
}

// Connections may spell the way to a cluster differently.
func TestTwoWaysToOneQueue(t *testing.T) {
	t.Parallel()
	one, other := turnAt("shop"), turnAt("shop")
	one.Location.Cluster = vhost.Cluster{ID: "x", Name: "a", Endpoint: "mq:5672"}
	other.Location.Cluster = vhost.Cluster{Name: "a", Endpoint: "rabbitmq.shop.svc:5672"}
	topologytest.Equal(t, "may be one queue", true, one.isAt(other))
	other.Location.Cluster = vhost.Cluster{ID: "y", Name: "a"}
	topologytest.Equal(t, "another cluster of that name", false, one.isAt(other))

	// A server of another tenant can claim to be any cluster, but not to listen at any address.
	other.Location.Cluster = vhost.Cluster{ID: "x", Name: "a", Endpoint: "evil:5672"}
	other.Connection.Namespace = "evil"
	topologytest.Equal(t, "another namespace claims the cluster", false, one.isAt(other))
	other.Location.Cluster.Endpoint = "mq:5672"
	topologytest.Equal(t, "another namespace at the same address", true, one.isAt(other))
}
