package v1alpha1

import "slices"

// IsProtected says whether the BrokerConnection has its finalizer. Nothing is declared through one that has not: it could be
// gone, with its Secret, before its ConsumerQueues can clean up.
func (bc *BrokerConnection) IsProtected() bool {
	return slices.Contains(bc.Finalizers, ConnectionFinalizer)
}
