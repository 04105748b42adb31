package chart

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/jsonpath"
)

const (
	manager   = "warren-controller-manager"
	metrics   = "warren-controller-manager-metrics"
	contracts = "warren-contract-policy"
)

// Each value arrives where it belongs.
func TestEveryOption(t *testing.T) {
	t.Parallel()
	const container = ".spec.template.spec.containers[0]"
	found := render(t, "helm", "--values=test/chart/testdata/everything.yaml")
	for _, test := range []struct{ kind, name, path, want string }{
		{"Deployment", manager, container + ".image", "ghcr.io/warren-mq/warren@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"},
		{"Deployment", manager, container + ".imagePullPolicy", "IfNotPresent"},
		{"Deployment", manager, container + ".args", `["--leader-elect","--health-probe-bind-address=:8081",` +
			`"--metrics-bind-address=:8443","--metrics-cert-path=/etc/warren/metrics",` +
			`"--dead-letters-bind-address=:8444","--dead-letters-cert-path=/etc/warren/dead-letters","--dead-letters-front-proxy","--dead-letters-redact=(?i)internal",` +
			`"--watch-namespaces=team-a,team-b",` +
			`"--max-concurrent-reconciles=16","--max-management-response=128Mi","--zap-log-level=debug","--zap-encoder=console",` +
			`"--zap-time-encoding=iso8601"]`},
		{"Deployment", manager, container + ".env", `[{"name":"GOMEMLIMIT","value":"1840MiB"},` +
			`{"name":"POD_NAMESPACE","valueFrom":{"fieldRef":{"fieldPath":"metadata.namespace"}}},` +
			`{"name":"POD_NAME","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}},{"name":"HTTPS_PROXY","value":"http://proxy:3128"}]`},
		{"Deployment", manager, container + ".resources.limits.memory", "2Gi"},
		{"Deployment", manager, container + ".securityContext.readOnlyRootFilesystem", "true"},
		{"Deployment", manager, container + ".volumeMounts[0].mountPath", "/etc/warren/metrics"},
		{"Deployment", manager, container + ".volumeMounts[1].mountPath", "/etc/warren/dead-letters"},
		{"Deployment", manager, ".spec.template.spec.volumes[0].secret.secretName", "warren-metrics-tls"},
		{"Deployment", manager, ".spec.template.spec.volumes[1].secret.secretName", "warren-dead-letters-tls"},
		{"Deployment", manager, ".spec.template.spec.imagePullSecrets", `[{"name":"registry"}]`},
		{"Deployment", manager, ".spec.template.spec.serviceAccountName", "warren"},
		{"Deployment", manager, ".spec.template.spec.terminationGracePeriodSeconds", "60"},
		{"Deployment", manager, ".spec.template.spec.priorityClassName", "system-cluster-critical"},
		{"Deployment", manager, ".spec.template.spec.nodeSelector", `{"kubernetes.io/os":"linux"}`},
		{"Deployment", manager, ".spec.template.spec.tolerations", `[{"effect":"NoSchedule","key":"infra","operator":"Exists"}]`},
		{"Deployment", manager, ".spec.template.spec.affinity.nodeAffinity..values", `["amd64","arm64"]`},
		{"Deployment", manager, ".spec.template.spec.topologySpreadConstraints", `[{"labelSelector":{"matchLabels":` +
			`{"app.kubernetes.io/component":"manager","app.kubernetes.io/name":"warren"}},"maxSkew":1,` +
			`"topologyKey":"kubernetes.io/hostname","whenUnsatisfiable":"ScheduleAnyway"}]`},
		{"Deployment", manager, ".spec.template.metadata.labels.team", "platform"},
		{"Deployment", manager, ".spec.template.metadata.annotations['example\\.com/logs']", "json"},
		{"Deployment", manager, ".spec.replicas", "2"},
		{"APIService", "v1alpha1.deadletters.messaging.warren.dev", ".spec.service", `{"name":"warren-dead-letters","namespace":"warren-system","port":8444}`},
		{"ServiceAccount", "warren", ".metadata.annotations", `{"example.com/role":"warren"}`},
		{"Service", metrics, ".metadata.annotations", `{"example.com/scrape":"true"}`},
		{"Certificate", metrics, ".spec", `{"dnsNames":["` + metrics + `.warren-system.svc","` + metrics + `.warren-system.svc.cluster.local"],` +
			`"issuerRef":{"kind":"ClusterIssuer","name":"internal"},"secretName":"warren-metrics-tls","usages":["server auth"]}`},
		{"ServiceMonitor", metrics, ".metadata.labels.release", "monitoring"},
		{"ServiceMonitor", metrics, ".spec.endpoints", `[{"bearerTokenFile":"/var/run/secrets/kubernetes.io/serviceaccount/token",` +
			`"honorLabels":true,"interval":"30s","path":"/metrics","port":"https","scheme":"https","scrapeTimeout":"10s",` +
			`"tlsConfig":{"ca":{"secret":{"key":"ca.crt","name":"warren-metrics-tls"}},"serverName":"` + metrics + `.warren-system.svc"}}]`},
		{"NetworkPolicy", manager, ".spec.ingress", `[{"from":[{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"monitoring"}}}],` +
			`"ports":[{"port":"metrics","protocol":"TCP"}]},{"ports":[{"port":"dead-letters","protocol":"TCP"}]}]`},
		{"NetworkPolicy", manager, ".spec.policyTypes", `["Ingress","Egress"]`},
		{"NetworkPolicy", manager, ".spec.egress[1].ports[0].port", "53"},
		{"PodDisruptionBudget", manager, ".spec.maxUnavailable", "1"},
		{
			"ValidatingAdmissionPolicy", contracts, ".spec.matchConditions[0].expression",
			"request.userInfo.username == 'system:serviceaccount:warren-system:warren'",
		},
	} {
		if got := at(t, found, test.kind, test.name, test.path); got != test.want {
			t.Errorf("%s %s: %s is\n%s, want\n%s", test.kind, test.name, test.path, got, test.want)
		}
	}
	expectDecodable(t, found)
}

// at returns what is at a path of an object.
func at(t *testing.T, in objects, kind, name, path string) string {
	t.Helper()
	finder := jsonpath.New(path)
	if err := finder.Parse("{" + path + "}"); err != nil {
		t.Fatal(err)
	}
	text := &bytes.Buffer{}
	if err := finder.Execute(text, in.get(t, kind, name).Object); err != nil {
		t.Errorf("%s %s: %v", kind, name, err)
	}
	return text.String()
}

// expectDecodable fails for each object of Kubernetes' own that has a field which does not exist.
func expectDecodable(t *testing.T, found objects) {
	t.Helper()
	for name, object := range found {
		var into any
		switch object.GetKind() {
		case "Deployment":
			into = &appsv1.Deployment{}
		case "Service":
			into = &corev1.Service{}
		case "ServiceAccount":
			into = &corev1.ServiceAccount{}
		case "ConfigMap":
			into = &corev1.ConfigMap{}
		case "NetworkPolicy":
			into = &networkingv1.NetworkPolicy{}
		case "PodDisruptionBudget":
			into = &policyv1.PodDisruptionBudget{}
		case "Role", "ClusterRole":
			into = &rbacv1.ClusterRole{}
		case "RoleBinding", "ClusterRoleBinding":
			into = &rbacv1.ClusterRoleBinding{}
		case "ValidatingAdmissionPolicy":
			into = &admissionregistrationv1.ValidatingAdmissionPolicy{}
		case "ValidatingAdmissionPolicyBinding":
			into = &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
		default:
			continue // its CRD knows
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// In each of the namespaces that it watches, the manager may write contracts.
func TestContractsInWatchedNamespaces(t *testing.T) {
	t.Parallel()
	found := render(t, "helm", "--set=watchNamespaces={team-a,team-b}", "--set=contracts.enabled=true")
	for _, namespace := range []string{"team-a", "team-b"} {
		if found[key("Role", namespace, "warren-contract-role")] == nil || found[key("RoleBinding", namespace, "warren-contract-rolebinding")] == nil {
			t.Errorf("there is no role in %s", namespace)
		}
	}
	if found[key("ClusterRole", "", "warren-contract-role")] != nil {
		t.Error("there is a ClusterRole")
	}
	found.get(t, "ValidatingAdmissionPolicy", contracts)
}

// In each of the namespaces that it watches, the manager has the same Role. It has no ClusterRole but those for metrics and for the
// dead-letter API.
func TestRolesInWatchedNamespaces(t *testing.T) {
	t.Parallel()
	found := render(t, "helm", "--set=watchNamespaces={team-a,team-b}", "--set=rbac.userRoles=false")
	for _, namespace := range []string{"team-a", "team-b"} {
		if found[key("Role", namespace, "warren-manager-role")] == nil || found[key("RoleBinding", namespace, "warren-manager-rolebinding")] == nil {
			t.Errorf("there is no role in %s", namespace)
		}
	}
	want := []string{"warren-metrics-auth-role", "warren-metrics-reader"}
	if difference := cmp.Diff(want, found.ofKind("ClusterRole")); difference != "" {
		t.Error(difference)
	}
}

// What is turned off is not there.
func TestWhatCanBeTurnedOff(t *testing.T) {
	t.Parallel()
	for set, gone := range map[string][]string{
		"crds.enabled=false": {"CustomResourceDefinition"},
		"rbac.create=false":  {"ClusterRoleBinding", "RoleBinding", "Role"},
		"metrics.enabled=false,deadLetters.enabled=false":        {"Service"},
		"serviceAccount.create=false,serviceAccount.name=theirs": {"ServiceAccount"},
	} {
		found := render(t, "helm", "--set="+set)
		for _, kind := range gone {
			if names := found.ofKind(kind); len(names) > 0 {
				t.Errorf("with %s there is still %s %v", set, kind, names)
			}
		}
		found.get(t, "Deployment", manager)
	}
	crds := render(t, "helm", "--set=crds.keep=false")
	for _, name := range crds.ofKind("CustomResourceDefinition") {
		if policy := crds[key("CustomResourceDefinition", "", name)].GetAnnotations()["helm.sh/resource-policy"]; policy != "" {
			t.Errorf("%s has the policy %s", name, policy)
		}
	}
}

// Two releases with names of their own have no object in common, so a second operator can watch other namespaces.
func TestTwoReleases(t *testing.T) {
	t.Parallel()
	first := render(t, "helm", "--set=crds.enabled=false")
	second := render(t, "helm", "--set=crds.enabled=false", "--set=fullnameOverride=second")
	for name := range first {
		if second[name] != nil {
			t.Errorf("%s is in both", name)
		}
	}
	if len(first) != len(second) {
		t.Errorf("%d and %d objects", len(first), len(second))
	}
}

// Metrics without HTTPS ask nobody who comes.
func TestInsecureMetrics(t *testing.T) {
	t.Parallel()
	found := render(t, "helm", "--set=metrics.secure=false", "--set=metrics.serviceMonitor.enabled=true", "--set=metrics.tls.secretName=unused",
		"--set=deadLetters.enabled=false")
	if got := at(t, found, "Deployment", manager, ".spec.template.spec.containers[0].args[3]"); got != "--metrics-secure=false" {
		t.Errorf("the last argument is %s", got)
	}
	if got, want := at(t, found, "ServiceMonitor", metrics, ".spec.endpoints"), `[{"honorLabels":true,"path":"/metrics","port":"http","scheme":"http"}]`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := at(t, found, "Service", metrics, ".spec.ports[0].name"); got != "http" {
		t.Errorf("the port is %s", got)
	}
	if names := found.ofKind("ClusterRoleBinding"); len(names) != 1 {
		t.Errorf("ClusterRoleBindings are %v", names)
	}
}
