package plan

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/consumer/contract"
)

// Limits of pauses; see ADR 0045.
const (
	// stopLimit is how long Warren waits until all consumers have stopped. A kubelet takes up to 90 s to deliver a ConfigMap. By
	// default the library reads it every 30 s and drains for 20 s. The rest of contract.MaxPause is for the recreation.
	stopLimit = 5 * time.Minute
	// maxPauses is how often consumers are asked to pause for one recreation, and pauseAgain the wait between two pauses.
	maxPauses  = 3
	pauseAgain = 10 * time.Minute
)

// ConsumerCounts counts the consumers of a queue by what Warren knows about them.
type ConsumerCounts struct {
	// All is how many consumers the queue has. Listed is how many of them the broker lists. Following is how many of the listed ones
	// follow the contract in the ConsumerQueue's ConfigMap.
	All, Listed, Following int
}

// whyNoPause returns why the consumers are not asked to pause, as the end of a sentence; empty if they all follow the contract.
func (c ConsumerCounts) whyNoPause(configMap string) string {
	switch others := c.Listed - c.Following; {
	case others > 0:
		return fmt.Sprintf("%s not follow the contract in ConfigMap %q: scale these consumers to zero",
			counted(others, "of them does", "of them do"), configMap)
	case c.Listed < c.All:
		return "RabbitMQ does not list all of them, so Warren cannot see whether they follow the contract: enable statistics, or " +
			"scale the consumers to zero"
	}
	return ""
}

// PauseConsumers decides whether the consumers are asked to pause, for a recreation that waits for them. If not, why names the
// reason and what the user can do. configMap is the ConfigMap with the contract that consumers.Following follow.
func (r Recreation) PauseConsumers(m Moment, consumers ConsumerCounts, configMap string) (pause bool, why string) {
	last := m.Status.LastResult
	recent := last != nil && last.Result == v1alpha1.RecreationBackedOut && m.Now.Sub(last.Time.Time) < pauseAgain
	if why := consumers.whyNoPause(configMap); why != "" {
		return false, why
	}
	m.Consumers = 0
	then := r.Decide(m)
	switch {
	case m.Status.Pauses >= maxPauses:
		return false, fmt.Sprintf("the consumers paused %d times, but the recreation did not complete: scale the consumers to zero",
			m.Status.Pauses)
	case m.Status.Pauses > 0 && recent:
		return false, fmt.Sprintf("the consumers paused, but the recreation did not complete. Warren asks them again %s after the last "+
			"attempt. To begin now, scale the consumers to zero", contract.Duration(pauseAgain))
	case !then.Begins:
		return false, then.Message
	}
	return true, ""
}

// Paused returns the status of a recreation whose consumers are asked to pause.
func Paused(status v1alpha1.RecreationStatus, now time.Time) v1alpha1.RecreationStatus {
	status.Pauses++
	status.Pause = &v1alpha1.ConsumerPause{Until: metav1.NewTime(now.Add(contract.MaxPause)).Rfc3339Copy()}
	return status
}

// PauseID returns the id of the pause of a recreation. Consumers limit a pause by its id, so every pause has another one. The id of the
// recreation does not change, because a user may name it in order to abort.
func PauseID(status *v1alpha1.RecreationStatus) string {
	return fmt.Sprintf("%s-%d", status.ID, status.Pauses)
}

// PauseEnds returns when the pause of a recreation ends if nothing else happens; false if the consumers are not asked to pause.
func PauseEnds(status *v1alpha1.RecreationStatus) (ends time.Time, isPaused bool) {
	if status == nil || status.Pause == nil || status.Pause.Ended {
		return time.Time{}, false
	}
	switch status.Phase {
	case v1alpha1.RecreationWaiting:
		return status.Pause.Until.Add(stopLimit - contract.MaxPause), true
	case v1alpha1.RecreationDiverting, v1alpha1.RecreationEmptying, v1alpha1.RecreationSwapping:
		return status.Pause.Until.Time, true
	}
	return time.Time{}, false
}
