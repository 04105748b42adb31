package check

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// State is the outcome of a check.
type State string

// The values of State.
const (
	OK State = "ok"
	// Warning: Warren works, with a limitation or a risk.
	Warning State = "warning"
	// Failed: a user must act.
	Failed State = "failed"
	// Skipped: the user may not read what the check needs.
	Skipped State = "skipped"
)

// Result is the outcome of a check of one object.
type Result struct {
	State State `json:"state"`
	// Check names the check, in one or two words.
	Check string `json:"check"`
	// Object is what was checked, such as "BrokerConnection shop/default".
	Object  string `json:"object"`
	Message string `json:"message"`
	// Remedy is what to do, in one or more lines; empty if State is OK.
	Remedy string `json:"remedy,omitempty"`
}

// AnyFailed reports whether a check has failed.
func AnyFailed(results []Result) bool {
	return slices.ContainsFunc(results, func(r Result) bool { return r.State == Failed })
}

const docs = "https://warren-mq.github.io/warren/"

// Unread returns the result of a check whose object could not be read.
func Unread(check, object string, err error) Result {
	result := Result{
		State: Failed, Check: check, Object: object, Message: err.Error(),
		Remedy: "Check that the API server works, and run the command again.",
	}
	if apierrors.IsForbidden(err) {
		result.State = Skipped
		result.Remedy = "A cluster administrator can run this command and see the result of this check."
	}
	return result
}

// named returns an object as results show it.
func named(kind, namespace, name string) string {
	return fmt.Sprintf("%s %s/%s", kind, namespace, name)
}
