package docs

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// docs/monitoring.md lists the alerts in config/prometheus/rules.yaml, with their severity and time.
func TestAlerts(t *testing.T) {
	t.Parallel()
	var manifest struct {
		Spec struct {
			Groups []struct {
				Rules []struct {
					Alert, For string
					Labels     struct{ Severity string }
				}
			}
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "config/prometheus/rules.yaml")), &manifest); err != nil {
		t.Fatal(err)
	}
	var documented, actual []string
	meaning := map[string]string{}
	for _, row := range table(t, read(t, "docs/monitoring.md"), "## Alerts") {
		name, _, _ := strings.Cut(strings.TrimPrefix(row[0], "["), "]")
		documented = append(documented, name+" "+row[1])
		meaning[name] = row[2]
	}
	words := strings.NewReplacer("1h", "an hour", "m", " minutes")
	for _, rule := range manifest.Spec.Groups[0].Rules {
		actual = append(actual, rule.Alert+" "+rule.Labels.Severity)
		if !strings.Contains(meaning[rule.Alert], words.Replace(rule.For)) {
			t.Errorf("docs/monitoring.md does not say that %s waits for %s: %s", rule.Alert, rule.For, meaning[rule.Alert])
		}
	}
	sameSet(t, "alerts", documented, actual)
}

// docs/security.md lists the permissions in the manager's roles.
func TestRightsOfTheManager(t *testing.T) {
	t.Parallel()
	objects := map[string][]string{
		"ConsumerQueues, BrokerConnections":  {"messaging.warren.dev/consumerqueues", "messaging.warren.dev/brokerconnections"},
		"the `status` of BrokerConnections":  {"messaging.warren.dev/brokerconnections/status"},
		"the `status` of ConsumerQueues":     {"messaging.warren.dev/consumerqueues/status"},
		"Redrives":                           {"messaging.warren.dev/redrives"},
		"the `status` of Redrives":           {"messaging.warren.dev/redrives/status"},
		"Purges":                             {"messaging.warren.dev/purges"},
		"the `status` of Purges":             {"messaging.warren.dev/purges/status"},
		"Secrets":                            {"/secrets"},
		"RabbitmqClusters":                   {"rabbitmq.com/rabbitmqclusters"},
		"Events (`events.k8s.io`)":           {"events.k8s.io/events"},
		"TokenReviews, SubjectAccessReviews": {"authentication.k8s.io/tokenreviews", "authorization.k8s.io/subjectaccessreviews"},
		"in `warren-system`: Leases":         {"coordination.k8s.io/leases"},
		"in `warren-system`: Events":         {"/events"},
		"in `warren-system`: Pods":           {"/pods"},
	}
	var documented, actual []string
	on := ""
	for _, row := range table(t, read(t, "docs/security.md"), "## What Warren may do") {
		if row[0] != "" {
			on = row[0]
		}
		if objects[on] == nil {
			t.Errorf("%q: this test does not support this object", on)
		}
		for _, object := range objects[on] {
			for verb := range strings.SplitSeq(row[1], ", ") {
				documented = append(documented, object+" "+verb)
			}
		}
	}
	for _, file := range []string{
		"rbac/role.yaml", "rbac/leader_election_role.yaml", "rbac/metrics_auth_role.yaml", "dead-letters/active_role.yaml",
	} {
		role := rbacv1.Role{}
		if err := yaml.Unmarshal([]byte(read(t, "config/"+file)), &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					actual = append(actual, rule.APIGroups[0]+"/"+resource+" "+verb)
				}
			}
		}
	}
	sameSet(t, "rights", documented, actual)
}

// docs/security.md lists the ClusterRoles for users. Viewers can read the status, and no role can write it.
func TestRolesForUsers(t *testing.T) {
	t.Parallel()
	var documented, actual []string
	for _, row := range table(t, read(t, "docs/security.md"), "## Roles for users") {
		documented = append(documented, code(row[0])...)
	}
	files, err := filepath.Glob(filepath.Join(root, "config/rbac/*_*_role.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		role := rbacv1.ClusterRole{}
		if err := yaml.Unmarshal([]byte(read(t, "config/rbac/"+filepath.Base(file))), &role); err != nil {
			t.Fatal(err)
		}
		if regexp.MustCompile(`^(consumerqueue|brokerconnection|redrive|purge|deadletterqueue)-`).MatchString(role.Name) {
			actual = append(actual, "warren-"+role.Name)
		}
	}
	sameSet(t, "roles", documented, actual)
}

// Warren has no webhook and needs no certificates, so the manifests contain no such kinds, except the optional APIService.
func TestNoWebhookAndNoCertificates(t *testing.T) {
	t.Parallel()
	var files []string
	for _, pattern := range []string{"config/*/*.yaml", "config/*/*/*.yaml"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	files = slices.DeleteFunc(files, func(file string) bool { return strings.Contains(filepath.ToSlash(file), "config/apiservice/") })
	if len(files) < 10 {
		t.Fatalf("found %v", files)
	}
	for _, file := range files {
		text := read(t, strings.TrimPrefix(filepath.ToSlash(file), root+"/"))
		for _, kind := range regexp.MustCompile(`(?m)^kind: (.*)$`).FindAllStringSubmatch(text, -1) {
			if strings.Contains(kind[1], "Webhook") || slices.Contains([]string{"Certificate", "Issuer"}, kind[1]) {
				t.Errorf("%s: %s", file, kind[1])
			}
		}
	}
}

// The image contains one static binary and no shell, and runs as user 65532: its last stage begins with an image without shell
// and libraries, and copies one file. The tests in hack/tools/image check its labels.
func TestImage(t *testing.T) {
	t.Parallel()
	text := read(t, "Dockerfile")
	last := text[strings.LastIndex(text, "FROM "):]
	last = regexp.MustCompile(`(?m)^(#|ARG|LABEL| +org\.opencontainers\.image\.).*\n`).ReplaceAllString(last, "")
	want := "FROM gcr.io/distroless/static-debian12:nonroot\nCOPY --from=build /manager /manager\nUSER 65532:65532\nENTRYPOINT [\"/manager\"]\n"
	if last != want {
		t.Errorf("the last stage is\n%s", last)
	}
	if !strings.Contains(text, "CGO_ENABLED=0") {
		t.Error("the binary is not static")
	}
}

// docs/how-to/single-namespaces.md shows the overlay that test/deployment installs.
func TestOverlayForSingleNamespaces(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/how-to/single-namespaces.md")
	for _, file := range []string{"kustomization.yaml", "team-a/kustomization.yaml", "team-b/kustomization.yaml"} {
		installed := regexp.MustCompile(`(\.\./)+config`).ReplaceAllString(read(t, "test/deployment/testdata/teams/"+file), "…/config")
		_, installed, _ = strings.Cut(installed, "apiVersion") // below the comment
		if file == "team-b/kustomization.yaml" {
			installed = strings.ReplaceAll(installed, "team-b", "team-a")
		}
		if !strings.Contains(page, installed) {
			t.Errorf("%s is not in docs/how-to/single-namespaces.md:\n%s", file, installed)
		}
	}
}

// docs/images/dashboard.svg has each panel of the dashboard that can be drawn. hack/dashboard draws no tables.
func TestPictureOfTheDashboard(t *testing.T) {
	t.Parallel()
	var dashboard struct {
		Panels []struct{ Title, Type string }
	}
	if err := json.Unmarshal([]byte(read(t, "config/grafana/warren.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	var want, drawn []string
	for _, panel := range dashboard.Panels {
		if panel.Type != "row" && panel.Type != "table" {
			want = append(want, panel.Title)
		}
	}
	titles := regexp.MustCompile(`font-weight="bold">([^<]+)<`)
	for _, title := range titles.FindAllStringSubmatch(read(t, "docs/images/dashboard.svg"), -1) {
		drawn = append(drawn, title[1])
	}
	sameSet(t, "docs/images/dashboard.svg", drawn, want)
}

// docs/gitops.md names the fields of ConsumerQueues and BrokerConnections that have defaults, and the lists that are not atomic.
func TestWhatTheAPIServerWritesIntoASpec(t *testing.T) {
	t.Parallel()
	_, bullet, _ := strings.Cut(read(t, "docs/gitops.md"), "**No surprises in `spec`.**")
	bullet, _, _ = strings.Cut(bullet, "\n- ")
	documented := slices.DeleteFunc(code(bullet), func(name string) bool { return name == "spec" })
	var actual []string
	var visit func(name string, schema apiextensionsv1.JSONSchemaProps)
	visit = func(name string, schema apiextensionsv1.JSONSchemaProps) {
		isAtomic := schema.XListType == nil || *schema.XListType == "atomic"
		if schema.Default != nil || !isAtomic {
			actual = append(actual, name)
		}
		for field, below := range schema.Properties {
			visit(field, below)
		}
		if schema.Items != nil {
			visit(name, *schema.Items.Schema)
		}
	}
	for _, kind := range []string{"consumerqueues", "brokerconnections"} {
		visit("spec", specOf(t, kind))
	}
	sameSet(t, "defaults and lists", documented, actual)
}

// specOf returns the schema of spec in the CRD of a kind, which is named in plural.
func specOf(t *testing.T, kind string) apiextensionsv1.JSONSchemaProps {
	t.Helper()
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal([]byte(read(t, "config/crd/bases/messaging.warren.dev_"+kind+".yaml")), &definition); err != nil {
		t.Fatal(err)
	}
	return definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
}

// The pages of Redrives and Purges give the defaults in the CRDs.
func TestDefaultsOfRedrivesAndPurges(t *testing.T) {
	t.Parallel()
	for kind, rows := range map[string][][]string{
		"redrives": table(t, read(t, "docs/how-to/redrive.md"), "## Set rate and limits"),
		"purges":   table(t, read(t, "docs/how-to/purge-dead-letters.md"), "## The fields"),
	} {
		for _, row := range rows {
			for _, field := range code(row[0]) {
				schema, found := specOf(t, kind).Properties[field]
				if !found {
					t.Errorf("%s have no field %s", kind, field)
				} else if schema.Default != nil && strings.Trim(string(schema.Default.Raw), `"`) != strings.Trim(row[1], "`") {
					t.Errorf("the default of %s in %s is %s, not %s", field, kind, schema.Default.Raw, row[1])
				}
			}
		}
	}
}

// A command makes each picture of docs/images, and a page shows it.
func TestPictures(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(root, "docs", "images", "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("found %v: %v", files, err)
	}
	commands := read(t, "Makefile") + read(t, "hack/dashboard/main.go") + read(t, "test/plugin/ui_test.go")
	for _, file := range files {
		name := filepath.Base(file)
		made := "docs/images/" + name
		if picture, ok := strings.CutSuffix(name, ".png"); ok {
			made = `screenshot("` + picture + `")`
		}
		if !strings.Contains(commands, made) {
			t.Errorf("no command makes docs/images/%s: found no %s", name, made)
		}
		if !slices.ContainsFunc(pages(t), func(page string) bool { return strings.Contains(read(t, page), "images/"+name+")") }) {
			t.Errorf("no page shows docs/images/%s", name)
		}
	}
}
