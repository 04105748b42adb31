package cli

import (
	"cmp"
	"context"
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

// offlineFlags are the flags of a command that reads ConsumerQueues from the cluster, or from files without a cluster.
type offlineFlags struct {
	files          *files
	version, vhost string
}

// add adds the flags. Their help names what the command reads and writes, and what the version is for.
func (f *offlineFlags) add(cmd *cobra.Command, read, version, written string) {
	f.files = addFiles(cmd, "read the "+read+" from files instead of the cluster")
	cmd.Flags().StringVar(&f.version, "broker-version", "", "with -f: the RabbitMQ version "+version+", such as 4.3; "+
		"the command does not contact a cluster")
	cmd.Flags().StringVar(&f.vhost, "vhost", "",
		"the vhost to write into the "+written+" (default that of the BrokerConnection, or / with -f)")
}

// checkBrokerVersion returns an error if only one of -f and --broker-version is given.
func (f *offlineFlags) checkBrokerVersion() error {
	if f.files.given() != (f.version != "") {
		return usageError("-f and --broker-version require each other: without a cluster, the version of the broker is unknown")
	}
	return nil
}

// queues returns the ConsumerQueues of the files, or those with the names from the cluster. --vhost overrides their vhosts.
func (f *offlineFlags) queues(ctx context.Context, c *cluster, names []string) ([]located, error) {
	var queues []located
	if f.files.given() {
		version, err := parseBrokerVersion(f.version)
		if err != nil {
			return nil, err
		}
		read, _, err := f.files.consumerQueues(c.In)
		for _, cq := range read {
			queues = append(queues, located{cq, cmp.Or(f.vhost, "/"), version})
		}
		return queues, err
	}
	kube, err := c.open()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		cq, err := kube.located(ctx, name)
		if err != nil {
			return nil, err
		}
		cq.vhost = cmp.Or(f.vhost, cq.vhost)
		queues = append(queues, cq)
	}
	return queues, nil
}
