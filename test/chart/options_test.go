package chart

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/jsonpath"
)

const (
	manager   = "warren-controller-manager"
	metrics   = "warren-controller-manager-metrics"
	contracts = "warren-contract-policy"
)

// Each value changes the intended field.
func TestEveryOption(t *testing.T) {
	t.Parallel()
	const container = ".spec.template.spec.containers[0]"
	found := render(t, "helm", "--values=test/chart/testdata/everything.yaml")
	for _, test := range []struct{ kind, name, path, want string }{
		{"Deployment", manager, container + ".image", "mirror.example.com/warren-mq/warren@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"},
		{"Deployment", manager, container + ".imagePullPolicy", "Always"},
		{"Deployment", manager, container + ".args", `["--leader-elect","--health-probe-bind-address=:8081",` +
			`"--metrics-bind-address=:8443","--metrics-cert-path=/etc/warren/metrics",` +
			`"--dead-letters-bind-address=:8444","--dead-letters-cert-path=/etc/warren/dead-letters","--dead-letters-front-proxy","--dead-letters-redact=(?i)internal",` +
			`"--watch-namespaces=team-a,team-b",` +
			`"--max-concurrent-reconciles=16","--max-management-response=128Mi","--zap-log-level=debug","--zap-encoder=console",` +
			`"--zap-time-encoding=iso8601"]`},
		{"Deployment", manager, container + ".env", `[{"name":"GOMEMLIMIT","value":"1843MiB"},` +
			`{"name":"POD_NAMESPACE","valueFrom":{"fieldRef":{"fieldPath":"metadata.namespace"}}},` +
			`{"name":"POD_NAME","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}},{"name":"HTTPS_PROXY","value":"http://proxy:3128"},` +
			`{"name":"NO_PROXY","value":"$(KUBERNETES_SERVICE_HOST),.svc"}]`},
		{"Deployment", manager, container + ".resources.limits.memory", "2Gi"},
		{"Deployment", manager, container + ".securityContext.readOnlyRootFilesystem", "true"},
		{"Deployment", manager, container + ".volumeMounts[0].mountPath", "/etc/warren/metrics"},
		{"Deployment", manager, container + ".volumeMounts[1].mountPath", "/etc/warren/dead-letters"},
		{"Deployment", manager, container + ".volumeMounts[2]", `{"mountPath":"/etc/ssl/certs/corporate.crt","name":"ca","readOnly":true,"subPath":"ca.crt"}`},
		{"Deployment", manager, container + ".livenessProbe", `{"httpGet":{"path":"/healthz","port":"probes"},"initialDelaySeconds":15,"periodSeconds":20,"timeoutSeconds":5}`},
		{"Deployment", manager, container + ".readinessProbe", `{"httpGet":{"path":"/readyz","port":"probes"},"initialDelaySeconds":1,"periodSeconds":10}`},
		{"Deployment", manager, ".spec.template.spec.volumes[0].secret.secretName", "warren-metrics-tls"},
		{"Deployment", manager, ".spec.template.spec.volumes[1].secret.secretName", "warren-dead-letters-tls"},
		{"Deployment", manager, ".spec.template.spec.volumes[2]", `{"configMap":{"name":"corporate-ca"},"name":"ca"}`},
		{"Deployment", manager, ".spec.template.spec.imagePullSecrets", `[{"name":"everywhere"},{"name":"registry"}]`},
		{"Deployment", manager, ".spec.strategy", `{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1}}`},
		{"Deployment", manager, ".metadata.annotations['reloader\\.stakater\\.com/auto']", "true"},
		{"Deployment", manager, ".metadata.labels.cost-center", "messaging"},
		{"Deployment", manager, ".metadata.annotations['example\\.com/owner']", "platform"},
		{"Deployment", manager, ".spec.template.metadata.labels.cost-center", "messaging"},
		{"Deployment", manager, ".spec.template.metadata.annotations['example\\.com/owner']", "platform"},
		{"Deployment", manager, ".spec.template.spec.serviceAccountName", "warren"},
		{"Deployment", manager, ".spec.template.spec.terminationGracePeriodSeconds", "60"},
		{"Deployment", manager, ".spec.template.spec.priorityClassName", "system-cluster-critical"},
		{"Deployment", manager, ".spec.template.spec.nodeSelector", `{"kubernetes.io/os":"linux"}`},
		{"Deployment", manager, ".spec.template.spec.tolerations", `[{"effect":"NoSchedule","key":"infra","operator":"Exists"}]`},
		{"Deployment", manager, ".spec.template.spec.affinity.nodeAffinity..values", `["amd64","arm64"]`},
		{"Deployment", manager, ".spec.template.spec.topologySpreadConstraints", `[{"labelSelector":{"matchLabels":` +
			`{"app.kubernetes.io/component":"manager","app.kubernetes.io/instance":"warren","app.kubernetes.io/name":"warren"}},"maxSkew":1,` +
			`"topologyKey":"kubernetes.io/hostname","whenUnsatisfiable":"ScheduleAnyway"}]`},
		{"Deployment", manager, ".spec.template.metadata.labels.team", "platform"},
		{"Deployment", manager, ".spec.template.metadata.annotations['example\\.com/logs']", "json"},
		{"Deployment", manager, ".spec.replicas", "2"},
		{"APIService", "v1alpha1.deadletters.messaging.warren.dev", ".spec.service", `{"name":"warren-dead-letters","namespace":"warren-system","port":8444}`},
		{"ServiceAccount", "warren", ".metadata.annotations['example\\.com/role']", "warren"},
		{"Service", metrics, ".metadata.annotations['example\\.com/scrape']", "true"},
		{"ConfigMap", "warren-dashboard-warren", ".metadata.namespace", "grafana"},
		{"PrometheusRule", "warren-alerts", ".metadata.namespace", "monitoring"},
		{"ConfigMap", "in-warren-system", ".data", `{"image":"mirror.example.com"}`},
		{"ConfigMap", "from-text", ".data", `{"release":"warren"}`},
		{"Certificate", metrics, ".spec", `{"dnsNames":["` + metrics + `.warren-system.svc","` + metrics + `.warren-system.svc.cluster.local"],` +
			`"issuerRef":{"kind":"ClusterIssuer","name":"internal"},"secretName":"warren-metrics-tls","usages":["server auth"]}`},
		{"Certificate", "warren-dead-letters", ".spec", `{"dnsNames":["warren-dead-letters.warren-system.svc","warren-dead-letters.warren-system.svc.cluster.local"],` +
			`"issuerRef":{"kind":"ClusterIssuer","name":"internal"},"secretName":"warren-dead-letters-tls","usages":["server auth"]}`},
		{"APIService", "v1alpha1.deadletters.messaging.warren.dev", ".metadata.annotations['cert-manager\\.io/inject-ca-from']", "warren-system/warren-dead-letters"},
		{"Secret", "warren-metrics-scraper-token", ".metadata.annotations['kubernetes\\.io/service-account\\.name']", "warren-metrics-scraper"},
		{"ClusterRoleBinding", "warren-metrics-readers", ".subjects", `[{"kind":"ServiceAccount","name":"prometheus-k8s","namespace":"monitoring"},` +
			`{"kind":"ServiceAccount","name":"warren-metrics-scraper","namespace":"warren-system"}]`},
		{"ServiceMonitor", metrics, ".metadata.labels.release", "monitoring"},
		{"ServiceMonitor", metrics, ".spec.endpoints", `[{"authorization":{"credentials":{"key":"token","name":"warren-metrics-scraper-token"}},` +
			`"honorLabels":true,"interval":"30s","metricRelabelings":[{"action":"labeldrop","regex":"pod"}],"path":"/metrics","port":"https-metrics",` +
			`"relabelings":[{"replacement":"eu-1","targetLabel":"cluster"}],"scheme":"https","scrapeTimeout":"10s",` +
			`"tlsConfig":{"ca":{"secret":{"key":"ca.crt","name":"warren-metrics-tls"}},"serverName":"` + metrics + `.warren-system.svc"}}]`},
		{"NetworkPolicy", manager, ".spec.ingress", `[{"from":[{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"monitoring"}}}],` +
			`"ports":[{"port":"metrics","protocol":"TCP"}]},{"from":[{"ipBlock":{"cidr":"10.0.0.0/24"}}],"ports":[{"port":"dead-letters","protocol":"TCP"}]}]`},
		{"NetworkPolicy", manager, ".spec.policyTypes", `["Ingress","Egress"]`},
		{"NetworkPolicy", manager, ".spec.egress[1].ports[0].port", "53"},
		{"PodDisruptionBudget", manager, ".spec.maxUnavailable", "1"},
		{"PodDisruptionBudget", manager, ".spec.unhealthyPodEvictionPolicy", "AlwaysAllow"},
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
	for name, object := range found {
		if object.GetKind() != "ConfigMap" && (object.GetLabels()["cost-center"] != "messaging" || object.GetAnnotations()["example.com/owner"] != "platform") {
			t.Errorf("%s has labels %v and annotations %v", name, object.GetLabels(), object.GetAnnotations())
		}
	}
}

// at returns the value at a path of an object.
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

// expectDecodable fails for each built-in object with an unknown field.
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
		case "Secret":
			into = &corev1.Secret{}
		case "Pod":
			into = &corev1.Pod{}
		case "CustomResourceDefinition":
			into = &apiextensionsv1.CustomResourceDefinition{}
		case "Role", "ClusterRole":
			into = &rbacv1.ClusterRole{}
		case "RoleBinding", "ClusterRoleBinding":
			into = &rbacv1.ClusterRoleBinding{}
		case "ValidatingAdmissionPolicy":
			into = &admissionregistrationv1.ValidatingAdmissionPolicy{}
		case "ValidatingAdmissionPolicyBinding":
			into = &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
		default:
			continue // its CRD has the schema
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The manager may write contracts in each watched namespace.
func TestContractsInWatchedNamespaces(t *testing.T) {
	t.Parallel()
	found := render(t, "helm", "--set=watchNamespaces={team-a,team-b}", "--set=consumerContracts.enabled=true")
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

// Each watched namespace gets the same Role. The manager's only ClusterRoles are for metrics and the dead-letter API.
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

// Without aggregation, the built-in roles include nothing of Warren, and the roles for users can still be bound.
func TestRolesForUsersWithoutAggregation(t *testing.T) {
	t.Parallel()
	roles := render(t, "helm").ofKind("ClusterRole")
	found := render(t, "helm", "--set=rbac.aggregateClusterRoles=false")
	if difference := cmp.Diff(roles, found.ofKind("ClusterRole")); difference != "" {
		t.Error(difference)
	}
	for _, role := range roles {
		for label := range found.get(t, "ClusterRole", role).GetLabels() {
			if strings.HasPrefix(label, "rbac.authorization.k8s.io/") {
				t.Errorf("ClusterRole %s has the label %s", role, label)
			}
		}
	}
}

// A NetworkPolicy that names no destination does not cut the manager off from the API server and the brokers.
func TestNetworkPolicyWithoutEgress(t *testing.T) {
	t.Parallel()
	found := render(t, "helm", "--set=networkPolicy.enabled=true")
	if got, want := at(t, found, "NetworkPolicy", manager, ".spec.policyTypes"), `["Ingress"]`; got != want {
		t.Errorf("the types are %s, want %s", got, want)
	}
}

// Disabled features render no objects.
func TestDisabledFeaturesRenderNoObjects(t *testing.T) {
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

// Each selector contains the release, so that two releases in one namespace do not select each other's pods.
func TestSelectorsNameTheRelease(t *testing.T) {
	t.Parallel()
	const instance = "app\\.kubernetes\\.io/instance"
	found := render(t, "helm", "--values=test/chart/testdata/everything.yaml")
	for _, test := range []struct{ kind, name, path string }{
		{"Deployment", manager, ".spec.selector.matchLabels." + instance},
		{"Deployment", manager, ".spec.template.metadata.labels." + instance},
		{"Service", metrics, ".spec.selector." + instance},
		{"Service", "warren-dead-letters", ".spec.selector." + instance},
		{"ServiceMonitor", metrics, ".spec.selector.matchLabels." + instance},
		{"NetworkPolicy", manager, ".spec.podSelector.matchLabels." + instance},
		{"PodDisruptionBudget", manager, ".spec.selector.matchLabels." + instance},
	} {
		if got := at(t, found, test.kind, test.name, test.path); got != "warren" {
			t.Errorf("%s %s: %s is %q", test.kind, test.name, test.path, got)
		}
	}
}

// The ServiceMonitor selects both Services, but only the metrics Service has a port with its name.
func TestServiceMonitorScrapesOnlyMetrics(t *testing.T) {
	t.Parallel()
	found := render(t, "helm", "--set=metrics.serviceMonitor.enabled=true")
	port := at(t, found, "ServiceMonitor", metrics, ".spec.endpoints[0].port")
	if got := at(t, found, "Service", metrics, ".spec.ports[*].name"); got != port {
		t.Errorf("the Service of the metrics has the port %s, want %s", got, port)
	}
	if got := at(t, found, "Service", "warren-dead-letters", ".spec.ports[*].name"); got == port {
		t.Errorf("the Service of the dead-letter API has the port %s too", got)
	}
}

// A configured token replaces the ServiceAccount that the chart creates for scraping.
func TestServiceMonitorWithOwnAuthorization(t *testing.T) {
	t.Parallel()
	found := render(t, "helm", "--set=metrics.serviceMonitor.enabled=true",
		"--set=metrics.serviceMonitor.authorization.credentials.name=mine", "--set=metrics.serviceMonitor.authorization.credentials.key=token")
	if got, want := at(t, found, "ServiceMonitor", metrics, ".spec.endpoints[0].authorization"), `{"credentials":{"key":"token","name":"mine"}}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if names := found.ofKind("Secret"); len(names) != 0 {
		t.Errorf("Secrets are %v", names)
	}
}

// GOMEMLIMIT is 90% of the memory limit by default.
func TestGoMemLimitFollowsTheMemoryLimit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ set, want string }{
		{"", "921MiB"},
		{"resources.limits.memory=256Mi", "230MiB"},
		{"resources.limits.memory=1.5Gi", "1382MiB"},
		{"resources.limits.memory=500M", "429MiB"},
		{"resources.limits.memory=1073741824", "921MiB"},
		{"resources.limits.memory=256Mi,manager.goMemLimit=200MiB", "200MiB"},
		{"resources.limits.memory=null", ""},
		{"resources=null", ""},
		{"resources.limits.memory=1e9", "858MiB"},
		{"resources.limits.memory=.5Gi", "460MiB"},
		{"resources.limits.memory=1Pi", "966367641MiB"},
		{"resources.limits=null,manager.goMemLimit=off", "off"},
	} {
		t.Run(test.set, func(t *testing.T) {
			t.Parallel()
			found := render(t, "helm", "--set="+test.set)
			got := at(t, found, "Deployment", manager, `.spec.template.spec.containers[0].env[?(@.name=="GOMEMLIMIT")].value`)
			if got != test.want {
				t.Errorf("GOMEMLIMIT is %q, want %q", got, test.want)
			}
		})
	}
}

// A user's labels cannot replace the labels that select the pods.
func TestPodLabelsKeepTheSelector(t *testing.T) {
	t.Parallel()
	found := render(t, "helm", "--set=podLabels.app\\.kubernetes\\.io/name=mine", "--set=commonLabels.app\\.kubernetes\\.io/instance=mine")
	want := `{"app.kubernetes.io/component":"manager","app.kubernetes.io/instance":"warren","app.kubernetes.io/name":"warren"}`
	if got := at(t, found, "Deployment", manager, ".spec.template.metadata.labels"); got != want {
		t.Errorf("the labels are %s, want %s", got, want)
	}
}

// Two releases with different names have no object in common, so a second operator can watch other namespaces. Only one of them can
// serve the dead-letter API as an APIService.
func TestTwoReleases(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"by default": nil,
		"with all switches": {
			"--values=test/chart/testdata/everything.yaml", "--set=serviceAccount.name=", "--set-json=extraObjects=[]",
			"--set=deadLetters.apiService.enabled=false",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"--set=crds.enabled=false"}, args...)
			first := render(t, "helm", args...)
			second := render(t, "helm", append(args, "--set=fullnameOverride=second")...)
			for name := range first {
				if second[name] != nil {
					t.Errorf("%s is in both", name)
				}
			}
			if len(first) != len(second) {
				t.Errorf("%d and %d objects", len(first), len(second))
			}
		})
	}
}

// Metrics without HTTPS need no authentication.
func TestInsecureMetrics(t *testing.T) {
	t.Parallel()
	found := render(t, "helm", "--set=metrics.secure=false", "--set=metrics.serviceMonitor.enabled=true", "--set=metrics.tls.secretName=unused",
		"--set=deadLetters.enabled=false")
	if got := at(t, found, "Deployment", manager, ".spec.template.spec.containers[0].args[3]"); got != "--metrics-secure=false" {
		t.Errorf("the last argument is %s", got)
	}
	if got, want := at(t, found, "ServiceMonitor", metrics, ".spec.endpoints"), `[{"honorLabels":true,"path":"/metrics","port":"http-metrics","scheme":"http"}]`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := at(t, found, "Service", metrics, ".spec.ports[0].name"); got != "http-metrics" {
		t.Errorf("the port is %s", got)
	}
	if names := found.ofKind("ClusterRoleBinding"); len(names) != 1 {
		t.Errorf("ClusterRoleBindings are %v", names)
	}
}

// YAML reads names such as 1e3 or on as something else than texts, unless they are quoted.
func TestNamesThatYAMLReadsAsSomethingElse(t *testing.T) {
	t.Parallel()
	output, err := run(t, "helm", "template", "1e3", "charts/warren", "--namespace=1234", "--kube-version=1.37.0",
		"--values=test/chart/testdata/everything.yaml", "--set-string=serviceAccount.name=12,priorityClassName=0x1,fullnameOverride=on",
		"--set-string=watchNamespaces={0123,null},metrics.readers[0].name=1.5,metrics.readers[0].namespace=true",
		"--set-string=metrics.tls.secretName=5,deadLetters.tls.secretName=6", "--set=extraObjects=null")
	if err != nil {
		t.Fatal(err)
	}
	found := parse(t, output)
	expectDecodable(t, found)
	if found[key("Deployment", "1234", "on-controller-manager")] == nil {
		t.Error("there is no Deployment")
	}
}

// A user can remove a default by null.
func TestValuesThatAreNull(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"global", "commonLabels", "commonAnnotations", "imagePullSecrets", "podLabels", "podAnnotations", "livenessProbe", "readinessProbe",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			render(t, "helm", "--set="+name+"=null").get(t, "Deployment", manager)
		})
	}
}
