package consumerqueue

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/statuswriter"
	"github.com/warren-mq/warren/internal/ownership"
)

// scope is one reconciliation of one ConsumerQueue. It has the steps that need no broker, and the writes to the API server. The steps at
// the broker are in vhostScope and teardown.
type scope struct {
	*Reconciler
	report

	// claimWritten: this reconciliation has written the claims, so no other write has changed the resource since it began.
	claimWritten bool
	// postponedFor is how soon an object that other clients have deleted too often may be declared again; zero if there is none.
	postponedFor time.Duration
	// recheckIn is how soon a recreation needs another reconciliation; zero if there is none.
	recheckIn time.Duration
}

func (r *report) key() client.ObjectKey { return client.ObjectKeyFromObject(r.cq) }

// frozen returns a copy for checks that run after this reconciliation, with the status with which it began. All checks share the copy,
// because they only read it, and thousands of checks may wait.
func (s *scope) frozen() *scope {
	cq := s.cq.DeepCopy()
	return &scope{Reconciler: s.Reconciler, report: report{cq: cq, status: &cq.Status}}
}

func asStaleCache(err error) error {
	if apierrors.IsConflict(err) {
		return statuswriter.ErrStaleCache
	}
	return err
}

// finish writes the status if it has changed, then records the Events. Reconcile also calls finish after an error, because a retry begins
// with the new status and sees no transition. If the reconciliation began with an old status, finish returns an error for which
// statuswriter.IsStale is true. Other changes of the resource in the meantime are harmless.
func (s *scope) finish(ctx context.Context) error {
	if equality.Semantic.DeepEqual(s.cq.Status, *s.status) {
		if s.statuses.IsOlder(s.cq) {
			return statuswriter.ErrStaleCache
		}
		s.recordEvents()
		return nil
	}
	err := s.writeStatus(ctx)
	if apierrors.IsConflict(err) && s.verifyNotStale(ctx) == nil {
		err = s.writeStatus(ctx)
	}
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	s.recordEvents()
	return nil
}

// writeStatus returns a conflict if the resource is not the newest version, because a write from an old copy would overwrite the
// inventory.
func (s *scope) writeStatus(ctx context.Context) error {
	written := s.cq.DeepCopy()
	s.status.DeepCopyInto(&written.Status)
	if err := s.statuses.Update(ctx, s.client, written); err != nil {
		return err
	}
	s.cq.ResourceVersion = written.ResourceVersion
	return nil
}

// writeClaim writes the status before the broker is changed.
func (s *scope) writeClaim(ctx context.Context) error {
	if err := s.writeStatus(ctx); err != nil {
		return asStaleCache(err)
	}
	s.cq.Status, s.claimWritten = *s.status.DeepCopy(), true
	return nil
}

// verifyNotStale returns ErrStaleCache if the status at the API server is not the one with which the reconciliation began. If anything else
// has changed, the reconciliation continues with the new version. A new spec enqueues the resource anyway.
func (s *scope) verifyNotStale(ctx context.Context) error {
	now := &v1alpha1.ConsumerQueue{}
	err := s.live.Get(ctx, s.key(), now)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get ConsumerQueue: %w", err)
	}
	ownership.RestoreIntents(now)
	if err != nil || now.UID != s.cq.UID || !equality.Semantic.DeepEqual(now.Status, s.cq.Status) {
		return statuswriter.ErrStaleCache
	}
	s.cq.ResourceVersion = now.ResourceVersion
	return nil
}

// addFinalizer adds the finalizer if the BrokerConnection with this UID has its own.
func (s *scope) addFinalizer(ctx context.Context, connection string) error {
	if controllerutil.ContainsFinalizer(s.cq, v1alpha1.TopologyFinalizer) {
		return nil
	}
	if err := s.checkProtected(ctx, connection); err != nil {
		return err
	}
	before := s.cq.DeepCopy()
	controllerutil.AddFinalizer(s.cq, v1alpha1.TopologyFinalizer)
	if err := s.patchMetadata(ctx, before); err != nil {
		return fmt.Errorf("add finalizer: %w", asStaleCache(err))
	}
	return nil
}

// checkProtected asks the API server whether the BrokerConnection of an open connection has its finalizer and is not being
// deleted. Otherwise it returns ErrStaleCache: the reconciliation began with an older BrokerConnection.
func (s *scope) checkProtected(ctx context.Context, owner string) error {
	bc := &v1alpha1.BrokerConnection{}
	err := s.live.Get(ctx, brokers.ConnectionKey(s.cq), bc)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get BrokerConnection %q: %w", s.cq.ConnectionName(), err)
	}
	if string(bc.UID) != owner || !bc.IsProtected() || !bc.DeletionTimestamp.IsZero() {
		return statuswriter.ErrStaleCache
	}
	return nil
}

// removeFinalizer reports what is retained at the broker, and removes the finalizer. It also logs the note, because the API server accepts
// no new Event in a terminating namespace.
func (s *scope) removeFinalizer(ctx context.Context, kind, note string) error {
	if recreation := s.status.Recreation; recreation.IsUnderWay() && recreation.Hold != "" {
		hold := fmt.Sprintf("the recreation of queue %[3]q has not ended: queues %[1]q and %[2]q may hold its messages, and its bindings "+
			"may lead to queue %[2]q. Move the messages and bindings back to queue %[3]q",
			recreation.Backlog, recreation.Hold, recreation.Queue)
		kind, note = corev1.EventTypeWarning, strings.TrimPrefix(note+"; "+hold, "; ")
	}
	err := s.patchFinalizer(ctx)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove finalizer: %w", asStaleCache(err))
	}
	if note != "" && err == nil { // otherwise an earlier reconciliation removed the finalizer, and reported the note
		log.FromContext(ctx).Info("Released the ConsumerQueue; objects of its topology are retained at the broker", "retained", note)
		s.addEvent(kind, eventRetained, "Delete", note)
	}
	s.forget(s.key())
	s.status = s.cq.Status.DeepCopy() // the resource is gone, so there is no status to write
	return nil
}

// patchFinalizer removes the finalizer from the resource, unless the API server has removed the whole resource.
func (s *scope) patchFinalizer(ctx context.Context) error {
	if s.unprotected.get(s.key()) != nil {
		return nil
	}
	before := s.cq.DeepCopy()
	controllerutil.RemoveFinalizer(s.cq, v1alpha1.TopologyFinalizer)
	return s.patchMetadata(ctx, before)
}

// patchMetadata writes changed metadata. It fails if the resource is not the newest version.
func (s *scope) patchMetadata(ctx context.Context, before *v1alpha1.ConsumerQueue) error {
	status := s.cq.Status
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := s.client.Patch(ctx, s.cq, patch, statuswriter.FieldOwner)
	s.cq.Status = status
	return err
}

// markConflict reports that another ConsumerQueue has the better right to an object. It keeps the inventory.
func (s *scope) markConflict(conflict ownership.Conflict) {
	if conditions.Ready(s.status.Conditions).Reason != v1alpha1.ReasonConflict {
		s.addEvent(corev1.EventTypeWarning, eventConflict, "Compare", conflict.Message)
	}
	s.cancelPruning()
	s.setConditions(summaryOfRefusal(v1alpha1.ReasonConflict, conflict.Message))
}

// cancelPruning cancels running deletions: the broker must not be changed now, and the spec may want the objects again.
func (s *scope) cancelPruning() { s.deletions.Cancel(s.key()) }
