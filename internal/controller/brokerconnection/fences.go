package brokerconnection

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/retrybudget"
	"github.com/warren-mq/warren/internal/text"
)

// No manager removes the fences of a BrokerConnection that is gone. So the BrokerConnection keeps its finalizer until a refresh of the
// vhost shows none. It waits for that refresh until retrybudget.Termination is over, and for at least fenceCheckTime. If the refresh
// shows a fence, it waits for fenceWaitTime, which is longer than any sentinel takes to arrive.
const (
	fenceCheckTime = 30 * time.Second
	fenceWaitTime  = 10 * time.Minute
)

// remainder is what to do about fences before the finalizer is removed: wait, or record an Event about them.
type remainder struct {
	wait time.Duration
	note string
}

// Fences are checked again soon at first, and less often later.
const (
	minFenceRecheck = 100 * time.Millisecond
	maxFenceRecheck = 2 * time.Second
)

// remainingFences checks whether fences of an unneeded BrokerConnection may be left.
func (r *Reconciler) remainingFences(ctx context.Context, bc *v1alpha1.BrokerConnection) (remainder, error) {
	if bc.Status.Location.ClusterName == "" && r.openConnection(bc) == nil { // it never connected
		return remainder{}, nil
	}
	unknown := remainder{note: brokers.FencesMayStand(bc.Spec.VHost)}
	if bc.Spec.Suspend {
		if r.closeSuspended(bc); r.suspendedClean.Has(bc) {
			return remainder{}, nil
		}
		return unknown, nil
	}
	free := r.unneeded.At(bc)
	waited := time.Since(free)
	again := min(max(waited, minFenceRecheck), maxFenceRecheck)
	if waited < fenceCheckTime || r.deletions.seen(bc) < retrybudget.Termination {
		unknown = remainder{wait: again}
	}
	connection := r.openConnection(bc)
	if connection == nil {
		_, err := r.connect(ctx, bc)
		if _, lasting := errors.AsType[*invalidConfig](err); err != nil && !lasting {
			return remainder{}, err
		}
		return unknown, nil
	}
	fences := connection.Fences()
	if !connection.Health().SyncedAt.After(free) {
		connection.RequestRefresh()
		return unknown, nil
	}
	switch {
	case len(fences) == 0:
		return remainder{}, nil
	case waited < fenceWaitTime:
		connection.RequestRefresh() // a refresh removes them
		return remainder{wait: maxFenceRecheck}, nil
	}
	return remainder{note: fencesStand(bc.Spec.VHost, fences)}, nil
}

// closeSuspended closes the connection of a suspended BrokerConnection. If fences remain, it records an Event, because nothing else
// shows the fences of a suspended BrokerConnection. If a healthy connection that has read the vhost shows no fence, it records that
// in suspendedClean.
func (r *Reconciler) closeSuspended(bc *v1alpha1.BrokerConnection) {
	connection := r.openConnection(bc)
	r.pool.Close(client.ObjectKeyFromObject(bc))
	if connection == nil {
		return
	}
	fences, health := connection.Fences(), connection.Health()
	switch {
	case len(fences) > 0:
		r.recorder.Eventf(bc, nil, corev1.EventTypeWarning, eventFencesRetained, "Suspend", "%s",
			text.Truncate(fencesStand(bc.Spec.VHost, fences), 1024))
	case health.Err == nil && !health.SyncedAt.IsZero():
		r.suspendedClean.At(bc)
	}
}

func fencesStand(vhost string, fences []string) string {
	commands := make([]string, len(fences))
	for i, fence := range fences {
		commands[i] = brokers.ClearPolicy(vhost, brokers.Quoted(fence))
	}
	return fmt.Sprintf("Vhost %q has fences (%d). %s: %s", vhost, len(fences), brokers.FenceWarning, strings.Join(commands, "; "))
}
