// Package parameters encodes a selector of dead letters as parameters of a request, and decodes it. The dead-letter API and kubectl warren
// share it.
package parameters

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// Names are the names of the parameters.
var Names = []string{"id", "reason", "header", "diedAfter", "diedBefore", "expression", "unknownOrigin"}

// Reasons are the values of the parameter reason.
var Reasons = []string{"Rejected", "Expired", "MaxLength", "DeliveryLimit", "Parked"}

// Of returns the parameters for a selector. A nil selector selects all messages.
func Of(selector *v1alpha1.DeadLetterSelector) url.Values {
	values := url.Values{}
	if selector == nil {
		return values
	}
	for _, id := range selector.IDs {
		values.Add("id", id)
	}
	for _, reason := range selector.Reasons {
		values.Add("reason", string(reason))
	}
	for _, header := range selector.Headers {
		addHeader(values, header)
	}
	for name, at := range map[string]*metav1.Time{"diedAfter": selector.DiedAfter, "diedBefore": selector.DiedBefore} {
		if at != nil {
			values.Set(name, at.UTC().Format(time.RFC3339))
		}
	}
	if selector.Expression != "" {
		values.Set("expression", selector.Expression)
	}
	if selector.UnknownOrigin {
		values.Set("unknownOrigin", "true")
	}
	return values
}

func addHeader(values url.Values, header v1alpha1.HeaderRequirement) {
	switch header.Operator {
	case "Exists":
		values.Add("header", header.Name)
		return
	case "DoesNotExist":
		values.Add("header", "!"+header.Name)
		return
	}
	compares := "="
	if header.Operator == "NotIn" {
		compares = "!="
	}
	for _, value := range header.Values {
		values.Add("header", header.Name+compares+value)
	}
}

// Selector returns the selector of parameters. Its errors begin with the name of the parameter.
func Selector(values url.Values) (selector v1alpha1.DeadLetterSelector, err error) {
	selector.IDs, selector.Expression = values["id"], values.Get("expression")
	for _, word := range values["reason"] {
		if !slices.Contains(Reasons, word) {
			return selector, fmt.Errorf("reason: %q must be one of %v", word, Reasons)
		}
		selector.Reasons = append(selector.Reasons, v1alpha1.DeadLetterReason(word))
	}
	if selector.Headers, err = Headers(values["header"]); err != nil {
		return selector, fmt.Errorf("header: %w", err)
	}
	if selector.DiedAfter, err = timeOf(values, "diedAfter"); err != nil {
		return selector, err
	}
	if selector.DiedBefore, err = timeOf(values, "diedBefore"); err != nil {
		return selector, err
	}
	selector.UnknownOrigin, err = Bool(values, "unknownOrigin")
	return selector, err
}

// Headers parses requirements of headers: NAME, !NAME, NAME=VALUE or NAME!=VALUE. It merges the values of one header and operator into one
// requirement.
func Headers(given []string) ([]v1alpha1.HeaderRequirement, error) {
	var requirements []v1alpha1.HeaderRequirement
	for _, text := range given {
		requirement := headerOf(text)
		if requirement.Name == "" {
			return nil, fmt.Errorf("%q must be NAME, !NAME, NAME=VALUE or NAME!=VALUE", text)
		}
		same := slices.IndexFunc(requirements, func(other v1alpha1.HeaderRequirement) bool {
			return other.Name == requirement.Name && other.Operator == requirement.Operator
		})
		if same < 0 {
			requirements = append(requirements, requirement)
		} else {
			requirements[same].Values = append(requirements[same].Values, requirement.Values...)
		}
	}
	return requirements, nil
}

// IsHeaderName reports whether the parameters can name a header.
func IsHeaderName(name string) bool {
	return !strings.Contains(name, "=") && !strings.HasPrefix(name, "!") && !strings.HasSuffix(name, "!")
}

func headerOf(text string) v1alpha1.HeaderRequirement {
	name, value, compared := strings.Cut(text, "=")
	switch {
	case compared && strings.HasSuffix(name, "!"):
		return v1alpha1.HeaderRequirement{Name: strings.TrimSuffix(name, "!"), Operator: "NotIn", Values: []string{value}}
	case compared:
		return v1alpha1.HeaderRequirement{Name: name, Operator: "In", Values: []string{value}}
	case strings.HasPrefix(text, "!"):
		return v1alpha1.HeaderRequirement{Name: text[1:], Operator: "DoesNotExist"}
	}
	return v1alpha1.HeaderRequirement{Name: text, Operator: "Exists"}
}

// Bool parses a boolean parameter; false if it is not given.
func Bool(values url.Values, name string) (bool, error) {
	given := values.Get(name)
	if given == "" {
		return false, nil
	}
	parsed, err := strconv.ParseBool(given)
	if err != nil {
		return false, fmt.Errorf("%s: %q must be true or false", name, given)
	}
	return parsed, nil
}

// timeOf parses a time parameter; nil if it is not given.
func timeOf(values url.Values, name string) (*metav1.Time, error) {
	given := values.Get(name)
	if given == "" {
		return nil, nil
	}
	at, err := time.Parse(time.RFC3339, given)
	if err != nil {
		return nil, fmt.Errorf("%s: %q must be a time such as 2026-01-31T08:00:00Z", name, given)
	}
	return new(metav1.NewTime(at)), nil
}
