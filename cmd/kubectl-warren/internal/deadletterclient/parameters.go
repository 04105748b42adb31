package deadletterclient

import (
	"net/url"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	messaging "github.com/warren-mq/warren/api/v1alpha1"
)

// Parameters returns the parameters of the dead-letter API for a selector. A nil selector selects all messages.
func Parameters(selector *messaging.DeadLetterSelector) url.Values {
	parameters := url.Values{}
	if selector == nil {
		return parameters
	}
	for _, id := range selector.IDs {
		parameters.Add("id", id)
	}
	for _, reason := range selector.Reasons {
		parameters.Add("reason", string(reason))
	}
	for _, header := range selector.Headers {
		addHeader(parameters, header)
	}
	for name, at := range map[string]*metav1.Time{"diedAfter": selector.DiedAfter, "diedBefore": selector.DiedBefore} {
		if at != nil {
			parameters.Set(name, at.UTC().Format(time.RFC3339))
		}
	}
	if selector.Expression != "" {
		parameters.Set("expression", selector.Expression)
	}
	if selector.UnknownOrigin {
		parameters.Set("unknownOrigin", "true")
	}
	return parameters
}

func addHeader(parameters url.Values, header messaging.HeaderRequirement) {
	switch header.Operator {
	case "Exists":
		parameters.Add("header", header.Name)
		return
	case "DoesNotExist":
		parameters.Add("header", "!"+header.Name)
		return
	}
	compares := "="
	if header.Operator == "NotIn" {
		compares = "!="
	}
	for _, value := range header.Values {
		parameters.Add("header", header.Name+compares+value)
	}
}
