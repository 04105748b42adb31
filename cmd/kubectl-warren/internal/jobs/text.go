package jobs

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// DestinationText describes the destination of a Redrive; nil is the default.
func DestinationText(to *v1alpha1.RedriveDestination) string {
	switch {
	case to == nil || to.Type == v1alpha1.RedriveToMain:
		return "the main queue"
	case to.Type == v1alpha1.RedriveToOriginal:
		return "the exchange that each message was first published to"
	case to.Type == v1alpha1.RedriveToConsumerQueue && to.ConsumerQueueRef != nil:
		return "the main queue of ConsumerQueue " + to.ConsumerQueueRef.Name
	case to.Type == v1alpha1.RedriveToRetry && to.Delay != "":
		return "the delay tier of " + string(to.Delay)
	}
	return "the first delay tier"
}

// RateText describes the rate of a Redrive; nil is the default.
func RateText(rate *intstr.IntOrString) string {
	switch {
	case rate == nil:
		return "100 a second"
	case rate.StrVal == v1alpha1.Unlimited:
		return "as fast as the broker takes them"
	}
	return rate.String() + " a second"
}
