package deadletterjob

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/ptr"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
)

// auditLog returns the log of a job. Each line names the job and its creator, because the job itself may be gone later.
func (s *scope) auditLog() logr.Logger {
	return s.Log.WithValues("name", s.key().ObjectKey, "uid", s.before.GetUID(), "requestedBy", cmp.Or(s.before.RequestedBy, "unknown"))
}

// logStart logs that a job starts to take messages, or continues after an interruption.
func (s *scope) logStart(verb string) {
	s.auditLog().WithValues(s.before.Logged...).Info(verb, "consumerQueue", s.before.ConsumerQueue, "source", s.status.Source,
		"total", ptr.Deref(s.status.Total, 0), "selection", selectionText(s.before.Select), "dryRun", s.before.DryRun,
		"reason", s.before.Reason)
}

// logOutcome logs the counts of a job that has ended. It also logs them when a task has ended and its job has not, because the job may be
// deleted before it continues.
func (s *scope) logOutcome(verb string) {
	s.auditLog().Info(verb, "consumerQueue", s.before.ConsumerQueue, "source", s.status.Source,
		"outcome", conditions.Ready(s.status.Conditions).Reason, "counts", s.work.Summary(), "dryRun", s.before.DryRun)
}

// logRate logs that a user has changed the rate of a running job.
func (s *scope) logRate() {
	s.auditLog().Info("Changed the rate", "consumerQueue", s.before.ConsumerQueue, "source", s.status.Source,
		"rate", s.before.Rate, "counts", s.work.Summary(), "dryRun", s.before.DryRun)
}

// redriveParameters returns keys and values of the spec of a Redrive for the log.
func redriveParameters(spec *v1alpha1.RedriveSpec) []any {
	to := ptr.Deref(spec.Destination, v1alpha1.RedriveDestination{Type: v1alpha1.RedriveToMain})
	parameters := []any{"destination", to.Type}
	if to.ConsumerQueueRef != nil {
		parameters = append(parameters, "destinationConsumerQueue", to.ConsumerQueueRef.Name)
	}
	if to.Delay != "" {
		parameters = append(parameters, "destinationDelay", to.Delay)
	}
	if spec.MaxMessages != nil {
		parameters = append(parameters, "maxMessages", *spec.MaxMessages)
	}
	return parameters
}

// selectionText describes a selector. It leaves out the values of headers, because messages contain the same values.
func selectionText(given *v1alpha1.DeadLetterSelector) string {
	if given == nil {
		return "all"
	}
	var parts []string
	if len(given.IDs) > 0 {
		parts = append(parts, fmt.Sprintf("ids: %d", len(given.IDs)))
	}
	if len(given.Reasons) > 0 {
		parts = append(parts, fmt.Sprintf("reasons: %v", given.Reasons))
	}
	if len(given.Headers) > 0 {
		headers := make([]string, len(given.Headers))
		for i, header := range given.Headers {
			headers[i] = fmt.Sprintf("%s %s (%d values)", header.Name, header.Operator, len(header.Values))
		}
		parts = append(parts, fmt.Sprintf("headers: %v", headers))
	}
	if given.UnknownOrigin {
		parts = append(parts, "unknownOrigin")
	}
	if given.DiedAfter != nil {
		parts = append(parts, "diedAfter: "+given.DiedAfter.UTC().Format(time.RFC3339))
	}
	if given.DiedBefore != nil {
		parts = append(parts, "diedBefore: "+given.DiedBefore.UTC().Format(time.RFC3339))
	}
	if given.Expression != "" {
		parts = append(parts, "expression: "+given.Expression)
	}
	return cmp.Or(strings.Join(parts, ", "), "all")
}
