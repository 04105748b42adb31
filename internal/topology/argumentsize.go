package topology

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/warren-mq/warren/api/v1alpha1"
)

const (
	// maxArgumentBytes limits the value of an argument, in bytes.
	maxArgumentBytes = 1024
	// maxArgumentsJSON limits all arguments together, as JSON in bytes. The status holds at most 64 KiB of arguments, including the
	// arguments that Warren sets itself.
	maxArgumentsJSON = 48 << 10
)

// checkArgumentSizes refuses values that have too many bytes. Validation in the API server can only count characters.
func checkArgumentSizes(spec v1alpha1.ConsumerQueueSpec) error {
	if spec.Queue != nil {
		if err := checkArgumentSize("queue.arguments", spec.Queue.Arguments); err != nil {
			return err
		}
	}
	if spec.DeadLetter != nil && spec.DeadLetter.Queue != nil {
		if err := checkArgumentSize("deadLetter.queue.arguments", spec.DeadLetter.Queue.Arguments); err != nil {
			return err
		}
	}
	for i, binding := range spec.Bindings {
		if err := checkArgumentSize(fmt.Sprintf("bindings[%d].arguments", i), binding.Arguments); err != nil {
			return err
		}
	}
	return nil
}

func checkArgumentSize(field string, arguments v1alpha1.Arguments) error {
	for _, name := range slices.Sorted(maps.Keys(arguments)) {
		value := arguments[name]
		if value.Type == intstr.String && len(value.StrVal) > maxArgumentBytes {
			return &Refusal{
				Reason: v1alpha1.ReasonInvalidSpec,
				Message: fmt.Sprintf("%s: the value of %q has %d bytes, at most %d are allowed: shorten it",
					field, name, len(value.StrVal), maxArgumentBytes),
			}
		}
	}
	if size := len(specArguments(arguments).JSON()); size > maxArgumentsJSON {
		return &Refusal{
			Reason: v1alpha1.ReasonInvalidSpec,
			Message: fmt.Sprintf("%s: all values take %d bytes as JSON, at most %d are allowed: shorten or remove some",
				field, size, maxArgumentsJSON),
		}
	}
	return nil
}
