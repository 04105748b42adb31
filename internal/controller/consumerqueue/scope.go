package consumerqueue

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/controller/statuswriter"
	"github.com/warren-mq/warren/internal/ownership"
)

// scope is one reconciliation of one ConsumerQueue. It has the steps before and after the broker is involved, and what all of
// them need to write to the API server; the steps at the broker are those of vhostScope and teardown.
type scope struct {
	*Reconciler
	report

	// claimWritten: this reconciliation has written down what the resource claims, so no other can have done anything since it began.
	claimWritten bool
	// postponedFor is how soon an object that others have deleted too often may be declared again; zero if there is none.
	postponedFor time.Duration
}

// frozen is a copy for a question that is asked when this reconciliation may be over. Its status is the one that the
// reconciliation began with. A question reads the status only, and thousands may wait to be asked, so there is one copy of it.
func (s *scope) frozen() *scope {
	cq := s.cq.DeepCopy()
	return &scope{Reconciler: s.Reconciler, report: report{cq: cq, status: &cq.Status}}
}

// asStaleCache turns a conflict into ErrStaleCache.
func asStaleCache(err error) error {
	if apierrors.IsConflict(err) {
		return statuswriter.ErrStaleCache
	}
	return err
}

// errUnprotected ends a reconciliation that would have declared something for the first time.
var errUnprotected = errors.New("the BrokerConnection has no finalizer yet, or is being deleted")

// finish writes the status if it changed, then records the Events that follow from it. It does so after an error too, because a
// retry reads the new status and sees no transition. If the reconciliation began with an old status, finish returns an error for
// which statuswriter.IsStale holds. Other changes of the resource in the meantime do no harm.
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

// writeStatus returns a conflict if the resource is not the newest version: a write from an old copy would overwrite what a status
// remembers.
func (s *scope) writeStatus(ctx context.Context) error {
	written := s.cq.DeepCopy()
	s.status.DeepCopyInto(&written.Status)
	if err := s.statuses.Update(ctx, s.client, written); err != nil {
		return err
	}
	s.cq.ResourceVersion = written.ResourceVersion
	return nil
}

// verifyNotStale returns ErrStaleCache if the API server has another status than the reconciliation began with. If anything else of
// the resource changed, it takes over the new version. A new spec enqueues the resource anyway.
func (s *scope) verifyNotStale(ctx context.Context) error {
	now := &v1alpha1.ConsumerQueue{}
	err := s.live.Get(ctx, client.ObjectKeyFromObject(s.cq), now)
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

// addFinalizer adds the finalizer, if the BrokerConnection of this UID has its own.
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

// checkProtected asks the API server whether the BrokerConnection of an open connection is protected and is to stay: the
// cache may not have heard yet that it is being deleted.
func (s *scope) checkProtected(ctx context.Context, owner string) error {
	bc := &v1alpha1.BrokerConnection{}
	err := s.live.Get(ctx, brokers.ConnectionKey(s.cq), bc)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get BrokerConnection %q: %w", s.cq.ConnectionName(), err)
	}
	if apierrors.IsNotFound(err) || string(bc.UID) != owner || !bc.IsProtected() || !bc.DeletionTimestamp.IsZero() {
		return errUnprotected
	}
	return nil
}

// removeFinalizer says what stays at the broker, if anything does, and takes the finalizer off. The log says it too: in a namespace
// that is being deleted no Event can be made.
func (s *scope) removeFinalizer(ctx context.Context, kind, note string) (ctrl.Result, error) {
	before := s.cq.DeepCopy()
	controllerutil.RemoveFinalizer(s.cq, v1alpha1.TopologyFinalizer)
	err := s.patchMetadata(ctx, before)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("remove finalizer: %w", asStaleCache(err))
	}
	if note != "" && err == nil { // otherwise it went before, and that was said
		log.FromContext(ctx).Info("Deleted; a part of the topology stays at the broker", "stays", note)
		s.addEvent(kind, eventRetained, "Delete", note)
	}
	s.forget(client.ObjectKeyFromObject(s.cq))
	s.status = s.cq.Status.DeepCopy() // the resource is gone: there is nothing to write to
	return ctrl.Result{}, nil
}

// patchMetadata writes what changed of the metadata; it fails if the resource is not the one that was read any more.
func (s *scope) patchMetadata(ctx context.Context, before *v1alpha1.ConsumerQueue) error {
	status := s.cq.Status
	err := s.client.Patch(ctx, s.cq, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	s.cq.Status = status
	return err
}

// markConflict says that another ConsumerQueue has the better right. What this one owned stays known.
func (s *scope) markConflict(conflict ownership.Conflict) {
	if conditions.Ready(s.status.Conditions).Reason != v1alpha1.ReasonConflict {
		s.addEvent(corev1.EventTypeWarning, eventConflict, "Compare", conflict.Message)
	}
	s.cancelPruning()
	s.setConditions(summaryOfRefusal(v1alpha1.ReasonConflict, conflict.Message))
}

// cancelPruning ends what is being tried: for now nothing is to be done at the broker, and what left the spec may be wanted again.
func (s *scope) cancelPruning() { s.deletions.Cancel(client.ObjectKeyFromObject(s.cq)) }
