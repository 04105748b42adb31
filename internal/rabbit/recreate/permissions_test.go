package recreate_test

import (
	"errors"
	"testing"

	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/crashpoint"
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
	t.Parallel()
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

// The user may configure Warren's names, but not the queue. RabbitMQ refuses the delete, so no delete is running, and the recreation is
// backed out.
func TestRecreationWhoseDeleteIsRefused(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, vh *brokers.VHost) {
		boundQueue(vh, nil)
		before := vh.Definitions()
		run := recreation(t, vh, nil)
		run.config = limitedConfig(t, vh, []string{"^warren-", ".*", ".*"})
		if err := run.swap(); recreate.ReasonOf(err) != recreate.MissingPermission || run.record.DeleteSent {
			t.Errorf("%v, delete sent: %t", err, run.record.DeleteSent)
		}
		if isFenced(vh) {
			t.Error("the queue is still fenced")
		}
		run.record.phase = givingBack
		run.run()
		run.mustBeAsBefore(before, false)
	})
}

// The user loses its rights during the recreation. A recreation that ended would leave its objects behind, and with the hold also messages.
func TestRecreationEndsOnceRightsComeBack(t *testing.T) {
	t.Parallel()
	for name, isGivenBack := range map[string]bool{"with a hold": false, "with an exchange to the queue": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vh := brokers.Newest(t).NewVHost(t)
			boundQueue(vh, nil)
			before := vh.Definitions()
			run := recreation(t, vh, nil)
			run.config = limitedConfig(t, vh, []string{".*", ".*", ".*"})
			run.mustCrashAfter(recreate.StepHoldDeclared)
			ids, messages := numbered(3)
			vh.Send("", run.record.Hold(), messages...)
			run.record.phase = givingBack
			if isGivenBack {
				run.mustCrashAfter(recreate.StepHoldDeleted)
			}
			run.survives = nil
			user := brokers.User{Username: run.config.Username, Password: run.config.Password}
			vh.Grant(user, withoutNames[0], withoutNames[1], withoutNames[2])
			if err := run.next(); recreate.ReasonOf(err) != recreate.MissingPermission {
				t.Fatal(err)
			}
			if !isGivenBack {
				rabbittest.Holds(t, vh, run.record.Hold(), 3)
			}
			vh.Grant(user, ".*", ".*", ".*")
			run.run()
			run.mustBeAsBefore(before, false)
			mustHold(t, vh, "orders", ids)
		})
	}
}

// mustCrashAfter works on a phase, and crashes after a step.
func (r *recreating) mustCrashAfter(step string) {
	r.t.Helper()
	r.survives = func(now string) bool { return now != step }
	if err := r.next(); !errors.Is(err, crashpoint.ErrCrashed) {
		r.t.Fatal(err)
	}
	r.restart() // RabbitMQ caches permissions for each channel
}
