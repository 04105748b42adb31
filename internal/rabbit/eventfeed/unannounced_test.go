package eventfeed

import (
	"fmt"
	"testing"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
	"github.com/warren-mq/warren/internal/vhost"
)

// A change that a refresh found is unannounced if its event arrives neither before the refresh nor within the limit.
func TestUnannouncedChanges(t *testing.T) {
	t.Parallel()
	orders := vhost.QueueID("orders")
	deleted, created := Change{Kind: Deleted, ID: orders}, Change{Kind: Created, ID: orders}
	found := snapshot.Difference{Deleted: []vhost.ID{orders}}
	var many []Change
	for number := range announcedLimit + 1 {
		many = append(many, Change{Kind: Created, ID: vhost.QueueID(fmt.Sprint(number))})
	}
	none := snapshot.Difference{}
	for _, test := range []struct {
		name    string
		happens func(u *unannounced)
		want    string
	}{
		{"no event arrives", func(u *unannounced) { u.refreshed(found, true) }, `queue "orders" was deleted`},
		{"its event arrived before", func(u *unannounced) { u.announce([]Change{deleted}); u.refreshed(found, true) }, ""},
		{"its event arrives later", func(u *unannounced) { u.refreshed(found, true); u.announce([]Change{deleted}) }, ""},
		{
			"Warren corrects it, which is announced", func(u *unannounced) { u.refreshed(found, true); u.announce([]Change{created}) },
			`queue "orders" was deleted`,
		},
		{
			"its event arrived before another refresh, which did not show the change yet",
			func(u *unannounced) {
				u.announce([]Change{deleted})
				u.refreshed(none, true)
				u.refreshed(found, true)
			}, "",
		},
		{
			"an event of long ago", func(u *unannounced) {
				u.announce([]Change{deleted})
				u.refreshed(none, true)
				u.refreshed(none, true)
				u.refreshed(found, true)
			}, `queue "orders" was deleted`,
		},
		{"a queue is new", func(u *unannounced) { u.refreshed(snapshot.Difference{Created: []vhost.ID{orders}}, true) }, `queue "orders" was created`},
		{"a policy", func(u *unannounced) { u.refreshed(snapshot.Difference{Policies: []string{"limits"}}, true) }, `policy "limits" was changed`},
		{"its event is about a policy", func(u *unannounced) {
			u.announce([]Change{{Kind: PolicyChanged, ID: vhost.ID{Name: "limits"}}})
			u.refreshed(snapshot.Difference{Policies: []string{"limits"}}, true)
		}, ""},
		{"the change may be older than the subscription", func(u *unannounced) { u.refreshed(found, false) }, ""},
		{"there is another subscription", func(u *unannounced) { u.refreshed(found, true); u.reset() }, ""},
		{"there were more events than are kept", func(u *unannounced) { u.announce(many); u.refreshed(found, true) }, ""},
		{"an exchange of RabbitMQ", func(u *unannounced) {
			u.refreshed(snapshot.Difference{Created: []vhost.ID{vhost.ExchangeID("amq.rabbitmq.log")}}, true)
		}, ""},
		{"a binding of another subscription to events", func(u *unannounced) {
			binding := vhost.ID{Kind: vhost.KindBinding, Source: management.EventExchange, Destination: "audit"}
			u.refreshed(snapshot.Difference{Deleted: []vhost.ID{binding}}, true)
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			u := &unannounced{}
			test.happens(u)
			if got := u.overdue(0); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if got := u.overdue(time.Hour); got != "" {
				t.Errorf("%q is overdue before the time", got)
			}
		})
	}
}
