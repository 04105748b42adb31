package cli

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/check"
	"github.com/warren-mq/warren/internal/buildinfo"
)

// versions is the JSON and YAML form of version.
type versions struct {
	Client   clientVersion   `json:"client"`
	Managers []check.Manager `json:"managers,omitempty"`
}

type clientVersion struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
}

func newVersion(c *cluster) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of kubectl warren and of the manager in the cluster",
		Long: "Print the versions of kubectl warren and of the manager in the cluster, from the image of its Deployment. This requires " +
			"permission to list Deployments in all namespaces.",
		Args: usage(cobra.NoArgs),
	}
	output := addOutput(cmd, formatTable, formatJSON, formatYAML)
	clientOnly := cmd.Flags().Bool("client", false, "print only the version of kubectl warren, without contacting a cluster")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return showVersions(cmd.Context(), c, output, *clientOnly)
	}
	return cmd
}

func showVersions(ctx context.Context, c *cluster, output *output, clientOnly bool) error {
	info := buildinfo.Get()
	all := versions{Client: clientVersion{info.Version, info.Revision, info.GoVersion}}
	var unknown error
	if !clientOnly {
		all.Managers, unknown = managersOf(ctx, c)
	}
	if printed, err := output.printed(c.Out, all); printed || err != nil {
		return err
	}
	printVersions(c.Out, all)
	switch {
	case unknown != nil:
		printf(c.ErrOut, "The version of the manager is unknown: %s\n", explain(unknown))
	case !clientOnly && len(all.Managers) == 0:
		printf(c.ErrOut, "The version of the manager is unknown: no Deployment has the labels %s\n", check.ManagerLabels)
	}
	return nil
}

func printVersions(out io.Writer, all versions) {
	printf(out, "kubectl warren %s, revision %s, %s\n", all.Client.Version, all.Client.Revision, all.Client.Go)
	for _, manager := range all.Managers {
		printf(out, "manager %s (Deployment %s/%s, image %s, %d ready)\n",
			cmp.Or(manager.Version, "of unknown version"), manager.Namespace, manager.Name, manager.Image, manager.Ready)
	}
}

func managersOf(ctx context.Context, c *cluster) ([]check.Manager, error) {
	kube, err := c.open()
	if err != nil {
		return nil, err
	}
	return kube.managers(ctx, "")
}

// managerContainer is the container of the manager in its pods.
const managerContainer = "manager"

// managerSelector selects the manager's Deployment and its pods, as the manifests and the Helm chart label them.
func managerSelector() client.ListOption {
	set, _ := labels.ConvertSelectorToLabelsMap(check.ManagerLabels) // a constant
	return client.MatchingLabels(set)
}

// managers returns the Deployments of the manager in a namespace; in all if it is empty.
func (s session) managers(ctx context.Context, namespace string) ([]check.Manager, error) {
	list := &appsv1.DeploymentList{}
	if err := s.List(ctx, list, managerSelector(), client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	found := make([]check.Manager, 0, len(list.Items))
	for i := range list.Items {
		found = append(found, managerOf(&list.Items[i]))
	}
	return found, nil
}

// managerOf describes a Deployment of the manager. The image of a release has a digest and no tag, but the Deployment has a label.
func managerOf(deployment *appsv1.Deployment) check.Manager {
	image := ""
	for _, container := range deployment.Spec.Template.Spec.Containers {
		if image == "" || container.Name == managerContainer {
			image = container.Image
		}
	}
	return check.Manager{
		Namespace: deployment.Namespace, Name: deployment.Name, Image: image,
		Version: cmp.Or(tagOf(image), deployment.Labels["app.kubernetes.io/version"]),
		Ready:   deployment.Status.ReadyReplicas,
	}
}

// namespacesOf returns the namespaces of managers, each once, or the given one if there is none.
func namespacesOf(managers []check.Manager, otherwise string) []string {
	namespaces := make([]string, 0, len(managers))
	for _, manager := range managers {
		namespaces = append(namespaces, manager.Namespace)
	}
	if len(namespaces) == 0 {
		return []string{otherwise}
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces)
}

// tagOf returns the tag of an image, without its digest; empty if there is none. A registry may have a port.
func tagOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	_, name, found := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	if !found {
		return ""
	}
	return name
}
