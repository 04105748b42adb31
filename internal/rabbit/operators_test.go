package rabbit

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/safedelete"
	"github.com/warren-mq/warren/test/brokers"
)

// The connection of another instance, in another Kubernetes cluster, causes the advisory SharedVHost. While it exists, Warren declares
// objects and deletes none.
func TestNothingIsDeletedBesideAnotherInstance(t *testing.T) {
	each(t, func(t *testing.T, vhost *brokers.VHost) {
		config := configOf(vhost)
		config.Owner, config.KnownOwners = "ours", knowing("our other")
		connection := connected(t, config, nil)
		sibling := configOf(vhost)
		sibling.Owner = "our other"
		connected(t, sibling, nil)
		foreign := configOf(vhost)
		foreign.Owner = "theirs"
		other := connected(t, foreign, nil)

		NewWithT(t).Eventually(func(g Gomega) { // the management API lists connections late
			g.Expect(connection.Refresh(t.Context())).To(Succeed())
			g.Expect(connection.Health().Operators).To(Equal("theirs"))
		}).WithTimeout(within).Should(Succeed())
		if err := connection.Apply(t.Context(), oneQueue); err != nil {
			t.Error(err)
		}
		cluster := connection.Health().Cluster.Key()
		removal := Removal{Queues: []string{"q"}}
		mustBe(t, connection.Remove(t.Context(), cluster, removal), brokererr.ErrShared, "another operator works on vhost", "theirs")
		if queues := vhost.Definitions().Queues; len(queues) != 1 {
			t.Errorf("%+v", queues)
		}
		other.Close()
		NewWithT(t).Eventually(func() error { return connection.Remove(t.Context(), cluster, removal) }).WithTimeout(within).Should(Succeed())
		if operators := connection.Health().Operators; operators != "" {
			t.Errorf("still there: %s", operators)
		}
	})
}

// A fence alone also shows another instance, for a user who cannot list its connections.
func TestAFenceOfAnotherInstance(t *testing.T) {
	t.Parallel()
	vhost := brokers.Newest(t).NewVHost(t)
	vhost.DeclareQueue("orders", quorum(nil))
	foreign := configOf(vhost)
	foreign.Owner = "theirs"
	abandon(t, foreign, safedelete.StepFenced, "orders")
	config := configOf(vhost)
	config.Owner, config.KnownOwners = "ours", knowing()
	connection := connected(t, config, nil)
	eventually(t, connection, func(g Gomega, health Health) { g.Expect(health.Operators).To(Equal("theirs")) })
	mustBe(t, connection.Remove(t.Context(), connection.Health().Cluster.Key(), Removal{Exchanges: []string{"x"}}), brokererr.ErrShared)
}

// A message names the first sixteen other owners in alphabetical order, whatever the order of the listing, and counts the connections and
// fences of the rest.
func TestOtherOwners(t *testing.T) {
	t.Parallel()
	var owners []string
	for i := range 18 {
		owners = append(owners, fmt.Sprintf("owner-%02d", i))
	}
	backward := slices.Clone(owners)
	slices.Reverse(backward)
	long := strings.Repeat("x", 1000)
	for name, given := range map[string]struct {
		owners []string
		want   string
	}{
		"none":     {nil, ""},
		"twice":    {[]string{"b", "a", "b"}, "a, b"},
		"sorted":   {slices.Concat(owners, owners), strings.Join(owners[:16], ", ") + ", and those of 4 more connections and fences"},
		"backward": {slices.Concat(backward, backward), strings.Join(owners[:16], ", ") + ", and those of 4 more connections and fences"},
		"long":     {[]string{long}, brokererr.Truncate(long, maxOwnerLength)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			others := otherOwners{}
			for _, owner := range given.owners {
				others.add(owner)
			}
			if got := others.String(); got != given.want {
				t.Errorf("got  %s\nwant %s", got, given.want)
			}
		})
	}
}

// knowing returns Config.KnownOwners for a process with these owners.
func knowing(owners ...string) func() func(string) bool {
	return func() func(string) bool { return func(owner string) bool { return slices.Contains(owners, owner) } }
}
