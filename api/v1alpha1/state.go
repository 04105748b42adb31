package v1alpha1

import "slices"

// IsProtected reports whether the BrokerConnection has its finalizer. Warren declares nothing through a connection without the
// finalizer: the connection and its Secret could disappear before its ConsumerQueues have cleaned up.
func (bc *BrokerConnection) IsProtected() bool {
	return slices.Contains(bc.Finalizers, ConnectionFinalizer)
}
