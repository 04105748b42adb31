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
	// maxBindingsJSON limits the arguments of all bindings together, as JSON in bytes. It counts the arguments of an entry once for each
	// routing key, because the ID of each binding contains them. Without the limit, a spec of 1.4 MB can have IDs of 89 MB. With 1 MiB,
	// ownership.Index.Update took 0.7 s for 4,000 bindings with 32 short arguments each.
	maxBindingsJSON = 256 << 10
)

// checkArgumentSizes refuses values that have too many bytes. Validation in the API server can only count characters.
func checkArgumentSizes(spec v1alpha1.ConsumerQueueSpec) error {
	if spec.Queue != nil {
		if _, err := checkArgumentSize("queue.arguments", spec.Queue.Arguments); err != nil {
			return err
		}
	}
	if spec.DeadLetter != nil && spec.DeadLetter.Queue != nil {
		if _, err := checkArgumentSize("deadLetter.queue.arguments", spec.DeadLetter.Queue.Arguments); err != nil {
			return err
		}
	}
	total := 0
	for i, binding := range spec.Bindings {
		size, err := checkArgumentSize(fmt.Sprintf("bindings[%d].arguments", i), binding.Arguments)
		if err != nil {
			return err
		}
		total += size * max(1, len(binding.RoutingKeys))
	}
	if total > maxBindingsJSON {
		return refuse(v1alpha1.ReasonInvalidSpec, "bindings: all arguments, counted once for each routing key, take %d bytes as JSON, "+
			"at most %d are allowed: shorten arguments or remove routing keys", total, maxBindingsJSON)
	}
	return nil
}

// checkArgumentSize refuses values that have too many bytes. It returns the size of all of them as JSON, in bytes.
func checkArgumentSize(field string, arguments v1alpha1.Arguments) (size int, err error) {
	for _, name := range slices.Sorted(maps.Keys(arguments)) {
		value := arguments[name]
		if value.Type == intstr.String && len(value.StrVal) > maxArgumentBytes {
			return 0, refuse(v1alpha1.ReasonInvalidSpec, "%s: the value of %q has %d bytes, at most %d are allowed: shorten it",
				field, name, len(value.StrVal), maxArgumentBytes)
		}
	}
	size = len(specArguments(arguments).JSON())
	if size > maxArgumentsJSON {
		return 0, refuse(v1alpha1.ReasonInvalidSpec, "%s: all values take %d bytes as JSON, at most %d are allowed: shorten or remove some",
			field, size, maxArgumentsJSON)
	}
	return size, nil
}
