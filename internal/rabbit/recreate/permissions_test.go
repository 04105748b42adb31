package recreate_test

import (
	"testing"

	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/recreate"
	"github.com/warren-mq/warren/internal/topology/topologytest"
	"github.com/warren-mq/warren/test/brokers"
	"github.com/warren-mq/warren/test/rabbittest"
)

// withoutNames are the permissions of a user that is not prepared for recreations: to configure, write and read.
var withoutNames = []string{`^(orders($|\.)|warren-link-)`, `^(orders($|\.)|amq\.default$)`, `^(orders($|\.)|shop$)`}

// limitedConfig is the configuration of a connection whose user has these permissions to configure, write and read.
func limitedConfig(t *testing.T, vh *brokers.VHost, rights []string) rabbit.Config {
	t.Helper()
	user := vh.Broker.NewUser(t, "management", "policymaker")
	vh.Grant(user, rights[0], rights[1], rights[2])
	config := rabbittest.ConfigOf(vh)
	config.Username, config.Password = user.Username, user.Password
	return config
}

// A recreation that declared nothing, because the user has no rights on its names, must end.
func TestRecreationGivesBackWithoutRights(t *testing.T) {
	for name, isTier := range map[string]bool{"with a hold": false, "without a hold": true} {
		t.Run(name, func(t *testing.T) {
			rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
				vh.DeclareQueue("orders", rabbittest.Quorum(nil))
				if !isTier {
					vh.DeclareExchange("shop", "direct", nil)
					vh.Bind("shop", "orders", "orders", nil)
				}
				before := vh.Definitions()
				run := recreation(t, vh, nil)
				run.config, run.record.WithoutHold = limitedConfig(t, vh, withoutNames), isTier
				topologytest.Equal(t, "Divert", recreate.MissingPermission, recreate.ReasonOf(run.next()))
				run.record.phase = givingBack
				if err := run.next(); err != nil {
					t.Error(err)
				}
				run.mustBeAsBefore(before, false)
			})
		})
	}
}
