package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// PurgeSpec selects the dead letters of a ConsumerQueue that are deleted, and limits their number. Only rate, suspend, cancel and
// ttlSecondsAfterFinished can be changed.
//
// +kubebuilder:validation:XValidation:rule="isSamePurge(self, oldSelf)",message="only rate, suspend, cancel and ttlSecondsAfterFinished can be changed: create another Purge"
// +kubebuilder:validation:XValidation:rule="!(has(oldSelf.cancel) && oldSelf.cancel) || has(self.cancel) && self.cancel",fieldPath=".cancel",message="a cancelled Purge stays cancelled: create another Purge"
type PurgeSpec struct {
	// consumerQueueRef names the ConsumerQueue in this namespace from whose dead-letter queue messages are deleted.
	// +required
	ConsumerQueueRef LocalObjectReference `json:"consumerQueueRef,omitzero"`

	// selector chooses the messages that are deleted. A message must match all fields. An empty selector chooses all messages.
	// +optional
	Selector *DeadLetterSelector `json:"selector,omitempty"`

	// expectedAtMost is the largest number of messages that you expect. The Purge counts the messages first. If more match, it
	// deletes none.
	// +kubebuilder:validation:Minimum=1
	// +required
	ExpectedAtMost int32 `json:"expectedAtMost,omitempty"`

	// rate is the number of messages that are deleted per second, or Unlimited. It can be changed while the Purge runs.
	// +kubebuilder:default=Unlimited
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="isNumberOrUnlimited(self, 1, 100000)",message="must be between 1 and 100000 messages a second, or Unlimited"
	// +optional
	Rate *intstr.IntOrString `json:"rate,omitempty"`

	// requestedBy is the user who requested the Purge, as the API server names the user. Trust it only with Warren's
	// ValidatingAdmissionPolicy: config/admission, or requestedByPolicy.enabled of the Helm chart.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	RequestedBy string `json:"requestedBy,omitempty"`

	// reason is why the user requested the Purge.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Reason string `json:"reason,omitempty"`

	// dryRun counts the matching messages, and deletes none.
	// +kubebuilder:default=false
	// +optional
	DryRun bool `json:"dryRun,omitempty"`

	// suspend pauses the Purge while it is true.
	// +kubebuilder:default=false
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// cancel ends the Purge, which cannot be continued. Deleted messages cannot be recovered.
	// +kubebuilder:default=false
	// +optional
	Cancel bool `json:"cancel,omitempty"`

	// ttlSecondsAfterFinished is how many seconds after its end Warren deletes the Purge. If not given, Warren does not delete it.
	// +kubebuilder:validation:Minimum=0
	// +optional
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// PurgeStatus is the progress and outcome of a Purge. examined and skipped describe the count before the deletion.
type PurgeStatus struct {
	JobStatus `json:",inline"`

	// matched is the number of matching messages after all were counted. The Purge deletes no more than these.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Matched *int64 `json:"matched,omitempty"`

	// deleted is the number of deleted messages. With atMost, it is a lower bound.
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

	// spec selects the dead letters that are deleted, and limits their number.
	// +required
	Spec PurgeSpec `json:"spec,omitzero"`

	// status is the progress of the Purge: the matched, deleted and skipped messages, and its outcome.
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
