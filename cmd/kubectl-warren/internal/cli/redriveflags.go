package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// redriveFlags are the flags that form the spec of a Redrive.
type redriveFlags struct {
	selectorFlags

	flags                            *pflag.FlagSet
	maxMessages, maxFailures         int32
	rate, to, delay, reason          string
	maxRedrives, maxDestinationDepth string
	removeHeaders                    []string
}

func (f *redriveFlags) add(cmd *cobra.Command) {
	f.selectorFlags.add(cmd)
	f.flags = cmd.Flags()
	flags := f.flags
	flags.Int32Var(&f.maxMessages, "max-messages", 0, "the maximum number of messages to move")
	flags.StringVar(&f.rate, "rate", "", "the number of messages per second, or unlimited (default 100)")
	flags.StringVar(&f.maxRedrives, "max-redrives", "",
		"how often a message may be moved in total, by this and earlier Redrives, or unlimited (default 3)")
	flags.StringVar(&f.maxDestinationDepth, "max-destination-depth", "",
		"the number of ready messages in the destination at which the Redrive waits, or unlimited (default 10000)")
	flags.Int32Var(&f.maxFailures, "max-failures", 0, "end the Redrive after this many messages could not be moved (default 10)")
	flags.StringArrayVar(&f.removeHeaders, "remove-header", nil,
		"also remove this header from each message; repeat the flag for several headers")
	flags.StringVar(&f.to, "to", "main", "main: the main queue; retry: a delay tier; original: "+
		"the exchange that each message was first published to; consumerqueue/NAME: the main queue of another ConsumerQueue")
	flags.StringVar(&f.delay, "delay", "", "with --to retry: the delay of the tier (default the first tier)")
	flags.StringVar(&f.reason, "reason", "", "why you move the messages; the Redrive writes it into a header of each message")
}

func (f *redriveFlags) spec(consumerQueue string, now time.Time) (v1alpha1.RedriveSpec, error) {
	spec := v1alpha1.RedriveSpec{ConsumerQueueRef: v1alpha1.LocalObjectReference{Name: consumerQueue}, Reason: f.reason}
	selection, err := f.selection(now)
	if err != nil {
		return spec, err
	}
	spec.Selector = selection
	if spec.Destination, err = f.destination(); err != nil {
		return spec, err
	}
	if f.flags.Changed("max-messages") {
		if f.maxMessages < 1 {
			return spec, usageError("--max-messages is %d: must be at least 1", f.maxMessages)
		}
		spec.MaxMessages = &f.maxMessages
	}
	if f.flags.Changed("max-failures") {
		if f.maxFailures < 1 {
			return spec, usageError("--max-failures is %d: must be at least 1", f.maxFailures)
		}
		spec.MaxFailures = &f.maxFailures
	}
	spec.RemoveHeaders = f.removeHeaders
	for _, field := range []struct {
		flag, given string
		value       **intstr.IntOrString
	}{
		{"--rate", f.rate, &spec.Rate},
		{"--max-redrives", f.maxRedrives, &spec.MaxRedrives},
		{"--max-destination-depth", f.maxDestinationDepth, &spec.MaxDestinationDepth},
	} {
		if *field.value, err = givenNumber(field.flag, field.given); err != nil {
			return spec, err
		}
	}
	return spec, nil
}

// destination returns the destination; nil for the main queue, the default.
func (f *redriveFlags) destination() (*v1alpha1.RedriveDestination, error) {
	kind, name, named := strings.Cut(f.to, "/")
	var destination *v1alpha1.RedriveDestination
	switch kind = strings.ToLower(kind); {
	case kind == "consumerqueue" && name != "":
		destination = &v1alpha1.RedriveDestination{
			Type: v1alpha1.RedriveToConsumerQueue, ConsumerQueueRef: &v1alpha1.LocalObjectReference{Name: name},
		}
	case kind == "main" && !named:
	case kind == "retry" && !named:
		destination = &v1alpha1.RedriveDestination{Type: v1alpha1.RedriveToRetry, Delay: v1alpha1.Duration(f.delay)}
	case kind == "original" && !named:
		destination = &v1alpha1.RedriveDestination{Type: v1alpha1.RedriveToOriginal}
	default:
		return nil, usageError("--to is %q: must be main, retry, original or consumerqueue/NAME", f.to)
	}
	if f.delay != "" && kind != "retry" {
		return nil, usageError("--delay requires --to retry: remove --delay, or add --to retry")
	}
	return destination, nil
}
