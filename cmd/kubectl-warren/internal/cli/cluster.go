package cli

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/vhost"
)

// cluster connects to the API server that kubectl's flags select. It has the streams of the command.
type cluster struct {
	genericiooptions.IOStreams

	flags *genericclioptions.ConfigFlags
}

func newCluster(streams genericiooptions.IOStreams) *cluster {
	return &cluster{IOStreams: streams, flags: genericclioptions.NewConfigFlags(true)}
}

// namespace returns the namespace of --namespace, or of the context.
func (c *cluster) namespace() (string, error) {
	namespace, _, err := c.flags.ToRawKubeConfigLoader().Namespace()
	return namespace, err
}

// fieldManager is the name under which the API server records the writes of the plugin. Flux reverts fields of managers whose names
// begin with kubectl, including annotations that are not in Git, such as the approval of a recreation.
const fieldManager = "warren-plugin"

// connect returns a client. It sends no request.
func (c *cluster) connect() (client.WithWatch, error) {
	config, err := c.flags.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // the API server limits requests by itself
	config.UserAgent = fieldManager
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}

// session is a client with the namespace of the command.
type session struct {
	client.WithWatch

	namespace string
}

func (c *cluster) open() (session, error) {
	namespace, err := c.namespace()
	if err != nil {
		return session{}, err
	}
	kube, err := c.connect()
	return session{WithWatch: kube, namespace: namespace}, err
}

// username returns the user's name at the API server.
func (s session) username(ctx context.Context) (string, error) {
	review := &authenticationv1.SelfSubjectReview{}
	err := s.Create(ctx, review)
	return review.Status.UserInfo.Username, err
}

// openQueue opens a session and reads a ConsumerQueue of its namespace.
func (c *cluster) openQueue(ctx context.Context, name string) (session, *v1alpha1.ConsumerQueue, error) {
	kube, err := c.open()
	if err != nil {
		return kube, nil, err
	}
	cq, err := kube.consumerQueue(ctx, name)
	return kube, cq, err
}

func (s session) consumerQueue(ctx context.Context, name string) (*v1alpha1.ConsumerQueue, error) {
	cq := &v1alpha1.ConsumerQueue{}
	return cq, s.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, cq)
}

func (s session) consumerQueues(ctx context.Context, all bool) (*v1alpha1.ConsumerQueueList, error) {
	list := &v1alpha1.ConsumerQueueList{}
	return list, s.List(ctx, list, s.inNamespace(all)...)
}

func (s session) inNamespace(all bool) []client.ListOption {
	if all {
		return nil
	}
	return []client.ListOption{client.InNamespace(s.namespace)}
}

// where describes the namespaces of a list in a sentence.
func (s session) where(all bool) string {
	if all {
		return "in any namespace"
	}
	return fmt.Sprintf("in namespace %q", s.namespace)
}

// elsewhere suggests other namespaces, unless all are listed.
func elsewhere(all bool) string {
	if all {
		return ""
	}
	return " For other namespaces, add --namespace NAME, or -A for all."
}

func (s session) connection(ctx context.Context, cq *v1alpha1.ConsumerQueue) (*v1alpha1.BrokerConnection, error) {
	bc := &v1alpha1.BrokerConnection{}
	return bc, s.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: cq.ConnectionName()}, bc)
}

// brokerVersion returns the version of a ConsumerQueue's broker.
func (s session) brokerVersion(ctx context.Context, cq *v1alpha1.ConsumerQueue) (vhost.Version, error) {
	bc, err := s.connection(ctx, cq)
	if err != nil {
		return vhost.Version{}, fmt.Errorf("cannot read the broker version from the status of BrokerConnection %q: %w",
			cq.ConnectionName(), err)
	}
	return versionAt(bc)
}

// located is a ConsumerQueue with its vhost and the version of its broker.
type located struct {
	*v1alpha1.ConsumerQueue

	vhost   string
	version vhost.Version
}

func (s session) located(ctx context.Context, name string) (located, error) {
	cq, err := s.consumerQueue(ctx, name)
	if err != nil {
		return located{}, err
	}
	bc, err := s.connection(ctx, cq)
	if err != nil {
		return located{}, err
	}
	version, err := versionAt(bc)
	return located{cq, bc.Spec.VHost, version}, err
}

func versionAt(bc *v1alpha1.BrokerConnection) (vhost.Version, error) {
	if bc.Status.BrokerVersion == "" {
		return vhost.Version{}, fmt.Errorf("the status of BrokerConnection %q has no version of the broker yet: wait until it is Ready, "+
			"or use -f with --broker-version, which needs no cluster", bc.Name)
	}
	return vhost.ParseVersion(bc.Status.BrokerVersion)
}

func parseBrokerVersion(text string) (vhost.Version, error) {
	version, err := vhost.ParseVersion(text)
	if err != nil {
		return version, usageError("--broker-version: %w", err)
	}
	return version, nil
}
