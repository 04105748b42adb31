package plan_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/topology"
	"github.com/warren-mq/warren/internal/topology/plan"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

func TestWhenConsumersAreAskedToPause(t *testing.T) {
	t.Parallel()
	all := plan.ConsumerCounts{All: 3, Listed: 3, Following: 3}
	for name, test := range map[string]struct {
		consumers plan.ConsumerCounts
		status    v1alpha1.RecreationStatus
		ready     int64
		want      string // why they are not; empty if they are
	}{
		"all follow the contract": {consumers: all},
		"one does not": {
			consumers: plan.ConsumerCounts{All: 3, Listed: 3, Following: 2},
			want:      `1 of them does not follow the contract in ConfigMap "shop/orders-contract": scale these consumers to zero`,
		},
		"one is not listed": {
			consumers: plan.ConsumerCounts{All: 3, Listed: 2, Following: 2},
			want: "RabbitMQ does not list all of them, so Warren cannot see whether they follow the contract: enable statistics, " +
				"or scale the consumers to zero",
		},
		"one is listed that has gone": {consumers: plan.ConsumerCounts{All: 2, Listed: 3, Following: 3}},
		"too many messages are ready": {
			consumers: all, ready: 101,
			want: `Warren recreates queue "orders" when at most 100 messages are ready (recreation.maxReadyMessages)`,
		},
		"the last pause failed a minute ago": {
			consumers: all,
			status:    v1alpha1.RecreationStatus{Pauses: 1, LastResult: wentBack("id", v1alpha1.BackOutPauseEnded, time.Minute)},
			want: "the consumers paused, but the recreation did not complete. Warren asks them again 10m after the last attempt. " +
				"To begin now, scale the consumers to zero",
		},
		"the last pause failed an hour ago": {
			consumers: all,
			status:    v1alpha1.RecreationStatus{Pauses: 2, LastResult: wentBack("id", v1alpha1.BackOutPauseEnded, time.Hour)},
		},
		"three pauses failed": {
			consumers: all,
			status:    v1alpha1.RecreationStatus{Pauses: 3, LastResult: wentBack("id", v1alpha1.BackOutPauseEnded, time.Hour)},
			want:      "the consumers paused 3 times, but the recreation did not complete: scale the consumers to zero",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := plan.Recreation{Queue: topology.Queue{Name: "orders", Role: v1alpha1.RoleMain}}
			pause, why := r.PauseConsumers(plan.Moment{
				Settings: topology.Recreation{Policy: v1alpha1.RecreatePolicyMigrate, MaxReady: 100},
				Status:   test.status, Now: now, Consumers: test.consumers.All, Ready: test.ready,
			}, test.consumers, "shop/orders-contract")
			topologytest.Equal(t, "why not", test.want, why)
			topologytest.Equal(t, "pause", test.want == "", pause)
		})
	}
}

// Only the consumers of such a queue may be asked to pause.
func TestWhichQueuesAreRecreatedWithTheirMessages(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		policy v1alpha1.RecreatePolicy
		role   v1alpha1.Role
		want   bool
	}{
		"the main queue under Migrate":        {v1alpha1.RecreatePolicyMigrate, v1alpha1.RoleMain, true},
		"the dead-letter queue under Migrate": {v1alpha1.RecreatePolicyMigrate, v1alpha1.RoleDeadLetter, false},
		"the main queue under WhenEmpty":      {v1alpha1.RecreatePolicyWhenEmpty, v1alpha1.RoleMain, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			topologytest.Equal(t, "moves", test.want, plan.MovesMessages(topology.Recreation{Policy: test.policy}, test.role))
		})
	}
}

// Consumers limit a pause by its id, so two pauses never have the same one. An abort names the recreation, whose id stays.
func TestEachPauseHasAnotherID(t *testing.T) {
	t.Parallel()
	first := plan.Paused(v1alpha1.RecreationStatus{ID: "id"}, now)
	topologytest.Equal(t, "first", v1alpha1.RecreationStatus{
		ID: "id", Pauses: 1, Pause: &v1alpha1.ConsumerPause{Until: metav1.NewTime(now.Add(10 * time.Minute))},
	}, first)
	second := plan.Paused(first, now)
	topologytest.Equal(t, "recreation", "id", second.ID)
	topologytest.Equal(t, "pauses", []string{"id-1", "id-2"}, []string{plan.PauseID(&first), plan.PauseID(&second)})
}

func TestWhenAPauseEnds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		phase v1alpha1.RecreationPhase
		ended bool
		after time.Duration // of the beginning of the pause; 0 if there is none
	}{
		"Waiting, because a consumer stays": {phase: v1alpha1.RecreationWaiting, after: 5 * time.Minute},
		"Diverting":                         {phase: v1alpha1.RecreationDiverting, after: 10 * time.Minute},
		"Emptying":                          {phase: v1alpha1.RecreationEmptying, after: 10 * time.Minute},
		"Swapping":                          {phase: v1alpha1.RecreationSwapping, after: 10 * time.Minute},
		"GivingBack":                        {phase: v1alpha1.RecreationGivingBack},
		"no recreation is planned":          {phase: ""},
		"ended":                             {phase: v1alpha1.RecreationWaiting, ended: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status := plan.Paused(v1alpha1.RecreationStatus{Phase: test.phase}, now)
			if test.ended {
				status.EndPause()
			}
			ends, isPaused := plan.PauseEnds(&status)
			topologytest.Equal(t, "is paused", test.after > 0, isPaused)
			if isPaused {
				topologytest.Equal(t, "ends", now.Add(test.after), ends.UTC())
			}
		})
	}
}

// A pause without an end would stay in the ConfigMap.
func TestAPauseEndsWithItsRecreation(t *testing.T) {
	t.Parallel()
	pause, ended := &v1alpha1.ConsumerPause{}, &v1alpha1.ConsumerPause{Ended: true}
	begun := v1alpha1.RecreationStatus{ID: "id", Queue: "orders", NewArguments: "{}", Pause: pause, Pauses: 2}
	topologytest.Equal(t, "completed", ended, plan.Finished(begun, metav1.NewTime(now)).Pause)
	begun.BackOutReason = v1alpha1.BackOutPauseEnded
	back := plan.Finished(begun, metav1.NewTime(now))
	topologytest.Equal(t, "went back", ended, back.Pause)
	topologytest.Equal(t, "count after it went back", int32(2), back.Pauses)
	same := topology.Queue{Name: "orders"}
	begun.NewArguments = same.Arguments.JSON()
	newID := func() string { return "new" }
	topologytest.Equal(t, "planned again", pause, plan.Planned(&begun, same, newID).Pause)
	other := plan.Planned(&begun, topology.Queue{Name: "other"}, newID)
	topologytest.Equal(t, "another one is planned", ended, other.Pause)
	topologytest.Equal(t, "count of another one", int32(0), other.Pauses)
}
