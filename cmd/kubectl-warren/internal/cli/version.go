package cli

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/internal/buildinfo"
)

// versions is the JSON and YAML form of version.
type versions struct {
	Client   clientVersion    `json:"client"`
	Managers []managerVersion `json:"managers,omitempty"`
}

type clientVersion struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
}

// managerVersion describes a Deployment of the manager.
type managerVersion struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Image     string `json:"image"`
	// Version is the tag of the image; empty if the image has only a digest.
	Version string `json:"version,omitempty"`
	Ready   int32  `json:"readyReplicas"`
}

func newVersion(c *cluster, streams genericiooptions.IOStreams) *cobra.Command {
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
		if err := output.validate(); err != nil {
			return err
		}
		return showVersions(cmd.Context(), c, streams, output, *clientOnly)
	}
	return cmd
}

func showVersions(ctx context.Context, c *cluster, streams genericiooptions.IOStreams, output *output, clientOnly bool) error {
	info := buildinfo.Get()
	all := versions{Client: clientVersion{info.Version, info.Revision, info.GoVersion}}
	var unknown error
	if !clientOnly {
		all.Managers, unknown = managers(ctx, c)
	}
	if printed, err := output.printed(streams.Out, all); printed || err != nil {
		return err
	}
	printVersions(streams.Out, all)
	switch {
	case unknown != nil:
		printf(streams.ErrOut, "The version of the manager is unknown: %s\n", explain(unknown))
	case !clientOnly && len(all.Managers) == 0:
		printf(streams.ErrOut, "The version of the manager is unknown: no Deployment has the labels %s\n", managerLabelsText)
	}
	return nil
}

func printVersions(out io.Writer, all versions) {
	printf(out, "kubectl warren %s, revision %s, %s\n", all.Client.Version, all.Client.Revision, all.Client.Go)
	for _, manager := range all.Managers {
		printf(out, "manager %s (Deployment %s/%s, image %s, %d ready)\n",
			orUnknown(manager.Version), manager.Namespace, manager.Name, manager.Image, manager.Ready)
	}
}

// managerLabels are the labels of the manager's Deployment in the manifests and the Helm chart.
var managerLabels = client.MatchingLabels{"app.kubernetes.io/name": "warren", "app.kubernetes.io/component": "manager"}

const managerLabelsText = "app.kubernetes.io/name=warren and app.kubernetes.io/component=manager"

func managers(ctx context.Context, c *cluster) ([]managerVersion, error) {
	kube, err := c.open()
	if err != nil {
		return nil, err
	}
	list := &appsv1.DeploymentList{}
	if err := kube.List(ctx, list, managerLabels); err != nil {
		return nil, err
	}
	found := make([]managerVersion, 0, len(list.Items))
	for _, deployment := range list.Items {
		image := ""
		for _, container := range deployment.Spec.Template.Spec.Containers {
			if image == "" || container.Name == "manager" {
				image = container.Image
			}
		}
		found = append(found, managerVersion{
			Namespace: deployment.Namespace, Name: deployment.Name, Image: image, Version: tagOf(image),
			Ready: deployment.Status.ReadyReplicas,
		})
	}
	return found, nil
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

func orUnknown(version string) string {
	if version == "" {
		return "of unknown version"
	}
	return version
}
