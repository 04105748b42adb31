package cli

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// numberOrUnlimited parses a number or unlimited, such as the value of --rate.
func numberOrUnlimited(flag, text string) (*intstr.IntOrString, error) {
	if strings.EqualFold(text, v1alpha1.Unlimited) {
		return new(intstr.FromString(v1alpha1.Unlimited)), nil
	}
	number, err := strconv.ParseInt(text, 10, 32)
	if err != nil || number < 1 {
		return nil, usageError("%s is %q: must be a number from 1, or unlimited", flag, text)
	}
	return new(intstr.FromInt32(int32(number))), nil
}

// givenNumber is numberOrUnlimited for an optional flag; nil if it is not given.
func givenNumber(flag, text string) (*intstr.IntOrString, error) {
	if text == "" {
		return nil, nil
	}
	return numberOrUnlimited(flag, text)
}
