package topology

import (
	"cmp"
	"time"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// Recreation is how queues of a ConsumerQueue are recreated, with all defaults.
type Recreation struct {
	Policy v1alpha1.RecreatePolicy
	// Automatic: a recreation under Migrate needs no approval.
	Automatic bool
	// MaxReady is how many ready messages the main queue may hold when a recreation under Migrate begins.
	MaxReady int64
	// SettleTimeout is how long Warren tries to prove a queue empty.
	SettleTimeout time.Duration
	// AcceptPastBindings: Warren moves messages that were published to the queue by its name.
	AcceptPastBindings bool
}

// The defaults of spec.recreation.
const (
	defaultMaxReadyMessages = 100_000
	defaultSettleTimeout    = 2 * time.Minute
)

// Recreates reports whether Warren recreates queues of a ConsumerQueue with this driftPolicy. With Report it writes nothing.
func (r Recreation) Recreates(drift v1alpha1.DriftPolicy) bool {
	return r.Policy != v1alpha1.RecreatePolicyManual && drift != v1alpha1.DriftPolicyReport
}

// RecreationOf returns how queues of a ConsumerQueue are recreated.
func RecreationOf(cq *v1alpha1.ConsumerQueue) Recreation {
	r := Recreation{
		Policy: cmp.Or(cq.Spec.RecreatePolicy, v1alpha1.RecreatePolicyManual), MaxReady: defaultMaxReadyMessages,
		SettleTimeout: defaultSettleTimeout,
	}
	given := cq.Spec.Recreation
	if given == nil {
		return r
	}
	r.Automatic = given.Approval == v1alpha1.ApprovalAutomatic
	r.AcceptPastBindings = given.PublishersPastBindings == v1alpha1.PublishersAccept
	if given.MaxReadyMessages != nil {
		r.MaxReady = int64(*given.MaxReadyMessages)
	}
	if timeout, err := given.SettleTimeout.Parse(); err == nil {
		r.SettleTimeout = timeout
	}
	return r
}
