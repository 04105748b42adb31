package chart

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Both leave the image to who installs. The chart is given the one that config/manager has.
var sameImage = []string{"--set=image.repository=controller", "--set=image.tag=latest"}

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

// With contracts.enabled it renders what config/contract does, too.
func TestContractsRenderConfigContract(t *testing.T) {
	t.Parallel()
	want := kustomize(t, "config/default")
	maps.Copy(want, kustomize(t, "config/contract"))
	expectSame(t, want, render(t, "helm", append(sameImage, "--set=contracts.enabled=true")...))
}

// For a single namespace and no right in the whole cluster, it renders exactly what config/namespaced does.
func TestSingleNamespaceRendersConfigNamespaced(t *testing.T) {
	t.Parallel()
	values := []string{
		"--set=watchNamespaces={default}", "--set=metrics.enabled=false", "--set=deadLetters.enabled=false", "--set=rbac.userRoles=false",
		"--set=admissionPolicies.enabled=false",
	}
	expectSame(t, kustomize(t, "config/namespaced"), render(t, "helm", append(values, sameImage...)...))
}

// chartLabels are what the objects of the chart have and those of kustomize have not.
var chartLabels = []string{
	"helm.sh/chart", "app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by",
}

// expectSame fails for each object that the renderings have not in common. Three things differ:
//   - all objects of the chart have the labels above;
//   - its CRDs have the annotation by which Helm keeps them;
//   - the namespace of the operator is none of the chart's objects: helm makes it, or the user does.
func expectSame(t *testing.T, fromKustomize, fromChart objects) {
	t.Helper()
	if _, there := fromKustomize[key("Namespace", "", system)]; !there {
		t.Error("kustomize does not make the namespace")
	}
	delete(fromKustomize, key("Namespace", "", system))
	for name, object := range fromChart {
		takeOff(t, name, object)
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
	if len(object.GetLabels()) == 0 {
		unstructured.RemoveNestedField(object.Object, "metadata", "labels")
	}
	if object.GetKind() == "CustomResourceDefinition" {
		if got := object.GetAnnotations()["helm.sh/resource-policy"]; got != "keep" {
			t.Errorf("%s: Helm's policy is %q", name, got)
		}
		unstructured.RemoveNestedField(object.Object, "metadata", "annotations", "helm.sh/resource-policy")
	}
}
