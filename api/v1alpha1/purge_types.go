package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// PurgeSpec says which dead letters of a ConsumerQueue are deleted, and how many there may be. All but rate, suspend, cancel and
// ttlSecondsAfterFinished is fixed.
//
// +kubebuilder:validation:XValidation:rule="isSamePurge(self, oldSelf)",message="only rate, suspend, cancel and ttlSecondsAfterFinished can be changed: create another Purge"
// +kubebuilder:validation:XValidation:rule="!(has(oldSelf.cancel) && oldSelf.cancel) || has(self.cancel) && self.cancel",fieldPath=".cancel",message="a cancelled Purge stays cancelled: create another Purge"
type PurgeSpec struct {
	// consumerQueueRef names the ConsumerQueue in this namespace whose dead-letter queue the messages are deleted from.
	// +required
	ConsumerQueueRef LocalObjectReference `json:"consumerQueueRef,omitzero"`

	// selector chooses the messages that are deleted: those that match each of its fields. An empty selector chooses all messages.
	// +optional
	Selector *DeadLetterSelector `json:"selector,omitempty"`

	// expectedAtMost is the largest number of messages that you expect. The Purge counts the messages first: if more match, it deletes
	// none.
	// +kubebuilder:validation:Minimum=1
	// +required
	ExpectedAtMost int32 `json:"expectedAtMost,omitempty"`

	// rate is how many messages are deleted each second, or Unlimited. It can be changed while the Purge runs.
	// +kubebuilder:default=Unlimited
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="isNumberOrUnlimited(self, 1, 100000)",message="must be between 1 and 100000 messages a second, or Unlimited"
	// +optional
	Rate *intstr.IntOrString `json:"rate,omitempty"`

	// requestedBy is who asked for the Purge, the user name that the API server knows.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	RequestedBy string `json:"requestedBy,omitempty"`

	// reason is why somebody asked for the Purge.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Reason string `json:"reason,omitempty"`

	// dryRun counts the messages that match, and deletes none.
	// +kubebuilder:default=false
	// +optional
	DryRun bool `json:"dryRun,omitempty"`

	// suspend stops the Purge until suspend is taken back.
	// +kubebuilder:default=false
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// cancel ends the Purge. Messages that were deleted are gone.
	// +kubebuilder:default=false
	// +optional
	Cancel bool `json:"cancel,omitempty"`

	// ttlSecondsAfterFinished is for how long the Purge is kept after it has ended; for ever if not given.
	// +kubebuilder:validation:Minimum=0
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// PurgeStatus is how a Purge fares. Examined and skipped are those of the count.
type PurgeStatus struct {
	TransferStatus `json:",inline"`

	// matched is how many messages match, when all were counted. No more than these are deleted.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Matched *int64 `json:"matched,omitempty"`

	// deleted is how many messages were deleted; with atMost, at least so many.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Deleted *int64 `json:"deleted,omitempty"`
}

// Purge deletes dead letters of a ConsumerQueue, once.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=warren,shortName=prg
// +kubebuilder:printcolumn:name="From",type=string,JSONPath=`.status.source`
// +kubebuilder:printcolumn:name="Matched",type=integer,JSONPath=`.status.matched`
// +kubebuilder:printcolumn:name="Expected",type=integer,JSONPath=`.spec.expectedAtMost`
// +kubebuilder:printcolumn:name="Deleted",type=integer,JSONPath=`.status.deleted`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="By",type=string,priority=1,JSONPath=`.spec.requestedBy`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type Purge struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which dead letters are deleted, and how many there may be.
	// +required
	Spec PurgeSpec `json:"spec,omitzero"`

	// status is how far the Purge is: what matched, what was deleted, what stays, and why.
	// +kubebuilder:default:={"observedGeneration":-1, "conditions":{{"type":"Ready", "status":"Unknown", "reason":"Pending", "message":"not reconciled yet", "lastTransitionTime":"1970-01-01T00:00:00Z"}}}
	// +optional
	Status PurgeStatus `json:"status,omitempty"`
}

// PurgeList is a list of Purges.
//
// +kubebuilder:object:root=true
type PurgeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Purge `json:"items"`
}
