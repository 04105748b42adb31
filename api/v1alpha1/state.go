package v1alpha1

import "slices"

// IsProtected says whether the BrokerConnection has its finalizer. Nothing is declared through one that has not: it could be
// gone, with its Secret, before its ConsumerQueues can clean up.
func (bc *BrokerConnection) IsProtected() bool {
	return slices.Contains(bc.Finalizers, ConnectionFinalizer)
}

// IsSuspended says whether the broker is neither read nor written.
func (bc *BrokerConnection) IsSuspended() bool { return bc.Spec.Suspend != nil && *bc.Spec.Suspend }

// IsSuspended says whether the broker is neither read nor written for the ConsumerQueue.
func (cq *ConsumerQueue) IsSuspended() bool { return cq.Spec.Suspend != nil && *cq.Spec.Suspend }
