package chart

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// config/manager leaves the image to `make deploy`, so the chart is given the same one here.
var sameImage = []string{"--set=image.registry=", "--set=image.repository=controller", "--set=image.tag=latest", "--set=image.pullPolicy="}

// With its default values the chart renders exactly what config/default does.
func TestDefaultValuesRenderConfigDefault(t *testing.T) {
	t.Parallel()
	for _, helm := range helms {
		t.Run(helm, func(t *testing.T) {
			t.Parallel()
			expectSame(t, kustomize(t, "config/default"), render(t, helm, sameImage...))
		})
	}
}

// With consumerContracts.enabled it renders what config/contract does, too.
func TestContractsRenderConfigContract(t *testing.T) {
	t.Parallel()
	want := kustomize(t, "config/default")
	maps.Copy(want, kustomize(t, "config/contract"))
	expectSame(t, want, render(t, "helm", append(sameImage, "--set=consumerContracts.enabled=true")...))
}

// For a single namespace and no right in the whole cluster, it renders exactly what config/namespaced does.
func TestSingleNamespaceRendersConfigNamespaced(t *testing.T) {
	t.Parallel()
	values := []string{
		"--set=watchNamespaces={default}", "--set=metrics.enabled=false", "--set=deadLetters.enabled=false",
		"--set=rbac.aggregateClusterRoles=false", "--set=requestedByPolicy.enabled=false",
	}
	expectSame(t, kustomize(t, "config/namespaced"), render(t, "helm", append(values, sameImage...)...))
}

// chartLabels are what the objects of the chart have and those of kustomize have not.
var chartLabels = []string{
	"helm.sh/chart", "app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by",
}

// expectSame fails for each object that the renderings have not in common. Four things differ:
//   - all objects of the chart have the labels above;
//   - all of them have name and component, which kustomize does not give to CRDs and to roles that are generated;
//   - the CRDs of the chart have the annotation by which Helm keeps them;
//   - the chart has no namespace, because Helm creates it, and no pod of `helm test`.
func expectSame(t *testing.T, fromKustomize, fromChart objects) {
	t.Helper()
	if _, there := fromKustomize[key("Namespace", "", system)]; !there {
		t.Error("kustomize does not make the namespace")
	}
	delete(fromKustomize, key("Namespace", "", system))
	for name, object := range fromChart {
		if object.GetAnnotations()["helm.sh/hook"] == "test" {
			delete(fromChart, name)
			continue
		}
		takeOff(t, name, object)
		if same := fromKustomize[name]; same != nil {
			for _, label := range []string{"app.kubernetes.io/name", "app.kubernetes.io/component"} {
				if _, there := same.GetLabels()[label]; !there {
					unstructured.RemoveNestedField(object.Object, "metadata", "labels", label)
				}
			}
		}
		if len(object.GetLabels()) == 0 {
			unstructured.RemoveNestedField(object.Object, "metadata", "labels")
		}
	}
	if difference := cmp.Diff(fromKustomize, fromChart); difference != "" {
		t.Errorf("- is kustomize's, + is the chart's:\n%s", difference)
	}
	if len(fromChart) < 8 {
		t.Errorf("the chart has only %d objects", len(fromChart))
	}
}

// takeOff takes off what only objects of the chart have, and fails if an object has it not.
func takeOff(t *testing.T, name string, object *unstructured.Unstructured) {
	t.Helper()
	for _, label := range chartLabels {
		if object.GetLabels()[label] == "" {
			t.Errorf("%s has no label %s", name, label)
		}
		unstructured.RemoveNestedField(object.Object, "metadata", "labels", label)
	}
	if object.GetKind() == "CustomResourceDefinition" {
		if got := object.GetAnnotations()["helm.sh/resource-policy"]; got != "keep" {
			t.Errorf("%s: Helm's policy is %q", name, got)
		}
		unstructured.RemoveNestedField(object.Object, "metadata", "annotations", "helm.sh/resource-policy")
	}
}
