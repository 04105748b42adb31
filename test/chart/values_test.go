package chart

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// values.schema.json contains exactly the values of values.yaml.
func TestSchemaKnowsAllValues(t *testing.T) {
	t.Parallel()
	values, schema := map[string]any{}, map[string]any{}
	if err := yaml.Unmarshal(read(t, "values.yaml"), &values); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(read(t, "values.schema.json"), &schema); err != nil {
		t.Fatal(err)
	}
	known := fixed(inSchema("", schema))
	if difference := cmp.Diff(fixed(inValues("", values, schema)), known); difference != "" {
		t.Errorf("- is in values.yaml, + is in values.schema.json:\n%s", difference)
	}
}

// fixed removes the paths inside values that contain arbitrary Kubernetes fields.
func fixed(paths []string) []string {
	return slices.DeleteFunc(paths, func(path string) bool {
		return regexp.MustCompile(`^\.(resources|livenessProbe|readinessProbe)\.`).MatchString(path)
	})
}

// inSchema returns the paths of all properties.
func inSchema(path string, schema map[string]any) []string {
	properties, _ := schema["properties"].(map[string]any)
	var list []string
	for name, property := range properties {
		list = append(list, path+"."+name)
		list = append(list, inSchema(path+"."+name, property.(map[string]any))...)
	}
	slices.Sort(list)
	return list
}

// inValues returns the paths of all values, as deep as the schema describes them.
func inValues(path string, values, schema map[string]any) []string {
	properties, _ := schema["properties"].(map[string]any)
	var list []string
	for name, value := range values {
		list = append(list, path+"."+name)
		property, _ := properties[name].(map[string]any)
		inner, isMap := value.(map[string]any)
		if isMap && property["properties"] != nil {
			list = append(list, inValues(path+"."+name, inner, property)...)
		}
	}
	slices.Sort(list)
	return list
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "charts", "warren", name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// Unknown and invalid values are refused with a message that names them.
func TestValuesThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ set, want string }{
		"a misspelt value":                            {"metric.enabled=false", "metric"},
		"a misspelt value inside":                     {"metrics.serviceMonitor.label.a=b", "label"},
		"a number of replicas":                        {"replicaCount=many", "replicaCount"},
		"a policy of pulling":                         {"image.pullPolicy=Sometimes", "pullPolicy"},
		"a digest without sha256":                     {"image.digest=1234", "digest"},
		"namespaces as one text":                      {"watchNamespaces=team-a", "watchNamespaces"},
		"a name of no namespace":                      {"watchNamespaces={Team_A}", "watchNamespaces"},
		"a reader without a namespace":                {"metrics.readers[0].name=prometheus", "namespace"},
		"a certificate of no issuer":                  {"metrics.tls.certManager.enabled=true", "metrics.tls.certManager.issuerRef.name is required"},
		"a certificate of no issuer for dead letters": {"deadLetters.tls.certManager.enabled=true", "deadLetters.tls.certManager.issuerRef.name is required"},
		"a ServiceMonitor without a token":            {"metrics.serviceMonitor.enabled=true,rbac.create=false", "metrics.serviceMonitor.authorization"},
		"alerts without metrics":                      {"metrics.prometheusRule.enabled=true,metrics.enabled=false", "metrics.prometheusRule.enabled needs metrics.enabled"},
		"readers without roles":                       {"metrics.readers[0].name=a,metrics.readers[0].namespace=b,rbac.create=false", "metrics.readers needs rbac.create"},
		"a limit that is not a quantity":              {"resources.limits.memory=1GB", "memory"},
		"a second GOMEMLIMIT":                         {"extraEnv[0].name=GOMEMLIMIT", "manager.goMemLimit"},
		"a variable that the chart sets":              {"extraEnv[0].name=POD_NAME", "extraEnv must not contain POD_NAME"},
		"a custom probe":                              {"livenessProbe.exec.command={true}", "exec"},
		"an APIService without TLS":                   {"deadLetters.apiService.enabled=true", "deadLetters.tls.secretName"},
		"an APIService without an authority":          {"deadLetters.apiService.enabled=true,deadLetters.tls.secretName=tls", "deadLetters.apiService.caBundle"},
		"no ServiceAccount at all":                    {"serviceAccount.create=false", "serviceAccount.name is required"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := template(t, "helm", "--set="+test.set)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want a refusal that names %s", err, test.want)
			}
		})
	}
}

// An unsupported Kubernetes version is refused before the installation.
func TestOldCluster(t *testing.T) {
	t.Parallel()
	_, err := template(t, "helm", "--kube-version=1.30.9")
	if err == nil || !strings.Contains(err.Error(), "chart requires kubeVersion: >=1.31.0-0") {
		t.Errorf("%v", err)
	}
}

// The notes after an installation list the missing settings for production.
func TestNotesNameWhatIsMissing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		set     string
		notes   []string
		lacking []string
	}{
		"by default": {
			set:   "",
			notes: []string{"There is one replica", "self-signed certificate", "There are no alerts", "The CRDs stay"},
		},
		"with everything": {
			set:     "replicaCount=2,metrics.tls.secretName=tls,metrics.prometheusRule.enabled=true,crds.keep=false,watchNamespaces={team-a}",
			notes:   []string{"and works in team-a", "kubectl --namespace team-a delete redrives,purges,consumerqueues --all\n", "helm uninstall warren"},
			lacking: []string{"There is one replica", "self-signed certificate", "There are no alerts", "The CRDs stay", "--all-namespaces"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			notes := notesOf(t, "--set="+test.set)
			for _, text := range test.notes {
				if !strings.Contains(notes, text) {
					t.Errorf("the notes lack %q:\n%s", text, notes)
				}
			}
			for _, text := range test.lacking {
				if strings.Contains(notes, text) {
					t.Errorf("the notes have %q", text)
				}
			}
		})
	}
}

// notesOf returns the notes after an installation with further arguments.
func notesOf(t *testing.T, args ...string) string {
	t.Helper()
	args = append([]string{"helm", "install", "warren", "charts/warren", "--dry-run=client", "--namespace=" + system}, args...)
	output, err := run(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	_, notes, _ := strings.Cut(string(output), "\nNOTES:\n")
	return notes
}

// A user can paste the commands of the third step into a shell. Bash only warns about a here-document without an end.
func TestCommandsOfTheNotesCanBePasted(t *testing.T) {
	t.Parallel()
	_, commands, found := strings.Cut(notesOf(t), "a BrokerConnection and a ConsumerQueue:\n\n")
	commands, _, ends := strings.Cut(commands, "\n\n")
	if !found || !ends || !strings.Contains(commands, "<<YAML") {
		t.Fatalf("the commands are %q", commands)
	}
	check := exec.CommandContext(t.Context(), "bash", "-n")
	check.Stdin = strings.NewReader(commands)
	if output, err := check.CombinedOutput(); err != nil || len(output) > 0 {
		t.Errorf("%v: %s\n%s", err, output, commands)
	}
}
