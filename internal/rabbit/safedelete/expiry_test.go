package safedelete_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/internal/rabbit/safedelete"
	"github.com/warren-mq/warren/internal/vhost"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/netfault"
	"github.com/warren-mq/warren/test/rabbittest"
)

// A sentinel that expires from a tier to a main queue behind the same fence arrives three minutes later, and the fence must stay until
// then. A slow management API must not cause that.
func TestNoSentinelExpiresBehindItsOwnFence(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		since string // the step from which requests are slow
		slow  func(request *http.Request) bool
	}{
		"while the policies are read": {safedelete.StepProven, func(request *http.Request) bool {
			return request.Method == http.MethodGet && strings.HasPrefix(request.URL.Path, "/api/policies/")
		}},
		"while the fence is opened": {safedelete.StepSettled, func(request *http.Request) bool {
			return request.Method == http.MethodPut && strings.HasPrefix(request.URL.Path, "/api/policies/")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
				vh.DeclareQueue("orders", rabbittest.Quorum(nil))
				vh.DeclareQueue("tier", rabbittest.Quorum(vhost.Arguments{
					"x-message-ttl": 5000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders",
					"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
				}))
				management := netfault.NewHTTPProxy(t, vh.Broker.ManagementURI, netfault.HTTPOptions{})
				config := rabbittest.ConfigOf(vh)
				config.ManagementURI = management.URI
				connection := rabbittest.Connected(t, config, nil)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var slow atomic.Bool
				connection.Deleter.Crash = func(step string) bool {
					slow.CompareAndSwap(false, step == test.since)
					if step == safedelete.StepSettled {
						cancel()
					}
					return true
				}
				management.Before(func(request *http.Request) {
					if slow.Load() && test.slow(request) {
						NewWithT(t).Eventually(vh.Ready).WithArguments("tier").WithTimeout(rabbittest.Within).Should(BeZero())
					}
				})
				err := connection.DeleteEmpty(ctx, connection.Health().Cluster.Key(), []string{"tier", "orders"}, nil) // not repeated
				if err == nil {
					t.Error("deleted by a call that has ended")
				}
				if policies := vh.Policies(); len(policies) > 0 {
					t.Errorf("%q are left", policies)
				}
				rabbittest.Holds(t, vh, "orders", 0)
			})
		})
	}
}
