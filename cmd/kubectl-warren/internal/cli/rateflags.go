package cli

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// rateOf reads a value of --rate; nil where none is given.
func rateOf(text string) (*intstr.IntOrString, error) {
	if text == "" {
		return nil, nil
	}
	if strings.EqualFold(text, v1alpha1.Unlimited) {
		return new(intstr.FromString(v1alpha1.Unlimited)), nil
	}
	rate, err := strconv.ParseInt(text, 10, 32)
	if err != nil || rate < 1 {
		return nil, usageError("--rate is %q: want a number of messages a second, or unlimited", text)
	}
	return new(intstr.FromInt32(int32(rate))), nil
}
