package cli

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// files is the flag -f of a command.
type files struct{ resource.FilenameOptions }

func addFiles(cmd *cobra.Command, purpose string) *files {
	f := &files{}
	cmd.Flags().StringSliceVarP(&f.Filenames, "filename", "f", nil, purpose+"; a file, a folder, a URL, or - for stdin")
	cmd.Flags().BoolVarP(&f.Recursive, "recursive", "R", false, "also read subfolders of a folder")
	return f
}

func (f *files) given() bool { return len(f.Filenames) > 0 }

// checkBrokerVersion returns an error if only one of -f and --broker-version is given.
func (f *files) checkBrokerVersion(version string) error {
	if f.given() != (version != "") {
		return usageError("-f and --broker-version require each other: without a cluster, the version of the broker is unknown")
	}
	return nil
}

// consumerQueues reads the ConsumerQueues of the files, in their order, and the kinds and names of other objects. An unknown
// field is an error.
func (f *files) consumerQueues(in io.Reader) (queues []*v1alpha1.ConsumerQueue, others []string, err error) {
	builder := resource.NewLocalBuilder().Unstructured()
	named := f.FilenameOptions
	named.Filenames = slices.DeleteFunc(slices.Clone(f.Filenames), func(name string) bool { return name == "-" })
	if len(named.Filenames) < len(f.Filenames) {
		builder.Stream(in, "stdin")
	}
	if len(named.Filenames) > 0 {
		builder.FilenameParam(false, &named)
	}
	infos, err := builder.Flatten().Do().Infos()
	if err != nil {
		return nil, nil, err
	}
	for _, info := range infos {
		object, ok := info.Object.(*unstructured.Unstructured)
		if !ok || object.GroupVersionKind() != v1alpha1.GroupVersion.WithKind("ConsumerQueue") {
			others = append(others, fmt.Sprintf("%s %q", info.Object.GetObjectKind().GroupVersionKind().Kind, info.Name))
			continue
		}
		cq := &v1alpha1.ConsumerQueue{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, cq, true); err != nil {
			return nil, nil, fmt.Errorf("%s: ConsumerQueue %q: %w", info.Source, info.Name, err)
		}
		queues = append(queues, cq)
	}
	if len(queues) == 0 {
		return nil, nil, fmt.Errorf("the files of -f contain no ConsumerQueue (%s)", v1alpha1.GroupVersion)
	}
	return queues, others, nil
}
