package chart

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// sameImage sets the image of config/manager, which `make deploy` replaces.
var sameImage = []string{"--set=image.registry=", "--set=image.repository=controller", "--set=image.tag=latest", "--set=image.pullPolicy="}

// With its default values, the chart renders exactly the objects of config/default.
func TestDefaultValuesRenderConfigDefault(t *testing.T) {
	t.Parallel()
	for _, helm := range helms {
		t.Run(helm, func(t *testing.T) {
			t.Parallel()
			expectSame(t, kustomize(t, "config/default"), render(t, helm, sameImage...))
		})
	}
}

// With consumerContracts.enabled, it also renders the objects of config/contract.
func TestContractsRenderConfigContract(t *testing.T) {
	t.Parallel()
	want := kustomize(t, "config/default")
	maps.Copy(want, kustomize(t, "config/contract"))
	expectSame(t, want, render(t, "helm", append(sameImage, "--set=consumerContracts.enabled=true")...))
}

// For a single namespace without cluster-wide permissions, it renders exactly the objects of config/namespaced. With the roles for
// users, it also renders those of config/namespaced/users.
func TestSingleNamespaceRendersConfigNamespaced(t *testing.T) {
	t.Parallel()
	values := []string{
		"--set=watchNamespaces={default}", "--set=metrics.enabled=false", "--set=deadLetters.enabled=false",
		"--set=requestedByPolicy.enabled=false",
	}
	values = append(values, sameImage...)
	expectSame(t, kustomize(t, "config/namespaced"), render(t, "helm", append(values, "--set=rbac.userRoles=false")...))
	want := kustomize(t, "config/namespaced")
	maps.Copy(want, kustomize(t, "config/namespaced/users"))
	expectSame(t, want, render(t, "helm", values...))
}

// The PodDisruptionBudget of the chart has the spec of config/apiservice.
func TestPodDisruptionBudgetIsThatOfConfigAPIService(t *testing.T) {
	t.Parallel()
	want := kustomize(t, "config/apiservice").get(t, "PodDisruptionBudget", manager)
	got := render(t, "helm", "--set=podDisruptionBudget.enabled=true").get(t, "PodDisruptionBudget", manager)
	if difference := cmp.Diff(want.Object["spec"], got.Object["spec"]); difference != "" {
		t.Errorf("- is kustomize's, + is the chart's:\n%s", difference)
	}
}

// config/network-policy limits both directions: metrics are for chosen namespaces only, and the manager, which has credentials of brokers,
// reaches only DNS, the API server and brokers.
func TestNetworkPolicyOfConfig(t *testing.T) {
	t.Parallel()
	policy := kustomize(t, "config/network-policy").get(t, "NetworkPolicy", manager)
	deployment := kustomize(t, "config/default").get(t, "Deployment", manager)
	pods, _, _ := unstructured.NestedStringMap(deployment.Object, "spec", "selector", "matchLabels")
	ports := func(protocol string, numbers ...float64) []any {
		var ports []any
		for _, number := range numbers {
			ports = append(ports, map[string]any{"protocol": protocol, "port": number})
		}
		return ports
	}
	labels := map[string]any{}
	for name, value := range pods {
		labels[name] = value
	}
	want := map[string]any{
		"podSelector": map[string]any{"matchLabels": labels}, "policyTypes": []any{"Ingress", "Egress"},
		"ingress": []any{
			map[string]any{
				"from":  []any{map[string]any{"namespaceSelector": map[string]any{"matchLabels": map[string]any{"metrics": "enabled"}}}},
				"ports": ports("TCP", 8443),
			},
			map[string]any{"ports": ports("TCP", 8444)},
		},
		"egress": []any{
			map[string]any{"ports": append(ports("UDP", 53), ports("TCP", 53)...)},
			map[string]any{"ports": ports("TCP", 443, 6443)},
			map[string]any{"ports": ports("TCP", 5671, 5672, 15671, 15672)},
		},
	}
	if difference := cmp.Diff(want, policy.Object["spec"]); difference != "" {
		t.Errorf("spec (-want +got):\n%s", difference)
	}
}

// chartLabels are labels of the chart's objects that kustomize's objects do not have.
var chartLabels = []string{
	"helm.sh/chart", "app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by",
}

// expectSame fails for each object that differs, or that only one of the renderings has. These differences are expected:
//   - objects of the chart have the labels above;
//   - they have the labels name and component, which kustomize adds neither to CRDs nor to generated roles;
//   - CRDs of the chart have the annotation that makes Helm keep them;
//   - only kustomize has the namespace, because Helm creates it, and only the chart has a pod for `helm test`.
func expectSame(t *testing.T, fromKustomize, fromChart objects) {
	t.Helper()
	if _, there := fromKustomize[key("Namespace", "", system)]; !there {
		t.Error("kustomize does not render the namespace")
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

// takeOff removes everything that only objects of the chart have, and fails if an object does not have it.
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
