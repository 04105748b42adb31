package jobs

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/warren-mq/warren/api/v1alpha1"
)

func TestDestinationText(t *testing.T) {
	t.Parallel()
	for want, to := range map[string][]*v1alpha1.RedriveDestination{
		"the main queue":       {nil, {Type: v1alpha1.RedriveToMain}},
		"the first delay tier": {{Type: v1alpha1.RedriveToRetry}},
		"the delay tier of 5m": {{Type: v1alpha1.RedriveToRetry, Delay: "5m"}},
		"the exchange that each message was first published to": {{Type: v1alpha1.RedriveToOriginal}},
		"the main queue of ConsumerQueue quarantine": {
			{Type: v1alpha1.RedriveToConsumerQueue, ConsumerQueueRef: &v1alpha1.LocalObjectReference{Name: "quarantine"}},
		},
	} {
		for _, destination := range to {
			if got := DestinationText(destination); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
	}
}

func TestRateText(t *testing.T) {
	t.Parallel()
	for want, rate := range map[string]*intstr.IntOrString{
		"100 a second":                     nil,
		"20 a second":                      new(intstr.FromInt32(20)),
		"as fast as the broker takes them": new(intstr.FromString("Unlimited")),
	} {
		if got := RateText(rate); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
