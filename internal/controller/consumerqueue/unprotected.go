package consumerqueue

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/byresource"
)

// unprotected has the ConsumerQueues that the API server removed although they had Warren's finalizer. The API server does so if it handles
// a deletion while Warren adds the finalizer (https://github.com/kubernetes/kubernetes/issues/77988). Warren then declares a topology
// that no resource specifies. The zero value has none.
type unprotected struct {
	byresource.Map[*v1alpha1.ConsumerQueue]
}

// record records a ConsumerQueue that was removed, by its last version, as if it were being deleted. It returns false if the finalizer was
// removed first. The queues of a recorded ConsumerQueue are deleted only if they are empty: no API server can confirm the deletion.
func (u *unprotected) record(last *v1alpha1.ConsumerQueue) bool {
	if !last.DeletionTimestamp.IsZero() || !controllerutil.ContainsFinalizer(last, v1alpha1.TopologyFinalizer) {
		return false
	}
	cq := last.DeepCopy()
	cq.DeletionTimestamp = new(metav1.Now())
	if cq.Spec.DeletionPolicy == v1alpha1.DeletionPolicyDelete {
		cq.Spec.DeletionPolicy = v1alpha1.DeletionPolicyDeleteIfEmpty
	}
	u.Change(client.ObjectKeyFromObject(cq), func(*v1alpha1.ConsumerQueue) *v1alpha1.ConsumerQueue { return cq })
	return true
}

// get returns a copy of a recorded ConsumerQueue; nil if there is none.
func (u *unprotected) get(key client.ObjectKey) *v1alpha1.ConsumerQueue { return u.Get(key).DeepCopy() }
