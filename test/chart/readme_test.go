package chart

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// Some switches also need a name.
var withSwitches = "--set=metrics.tls.certManager.issuerRef.name=ca,deadLetters.tls.certManager.issuerRef.name=ca," +
	"deadLetters.tls.secretName=dead-letters,deadLetters.apiService.injectCAFrom=warren-system/dead-letters"

var switchRow = regexp.MustCompile("(?m)^\\| `([A-Za-z.]+)` \\| (on|off) \\| ([^|]*) \\|")

// The README lists each switch with its default and the objects that it adds.
func TestReadmeListsWhatEachSwitchAdds(t *testing.T) {
	t.Parallel()
	listed := map[string]bool{}
	standard := render(t, "helm", withSwitches)
	for _, row := range switchRow.FindAllStringSubmatch(string(read(t, "README.md.gotmpl")), -1) {
		name, isOn, adds := row[1], row[2] == "on", strings.Fields(strings.ReplaceAll(row[3], "`", ""))
		listed[name] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			on, off := standard, render(t, "helm", withSwitches, fmt.Sprintf("--set=%s=%t", name, !isOn))
			if !isOn {
				on, off = off, on
			}
			found := map[string]bool{}
			for key, object := range on {
				if off[key] != nil {
					continue
				}
				text := object.GetKind() + "/" + object.GetName()
				at := slices.IndexFunc(adds, func(pattern string) bool { return matches(pattern, text) })
				if at < 0 {
					t.Errorf("it adds %s, which the README does not list", text)
					continue
				}
				found[adds[at]] = true
			}
			for _, pattern := range adds {
				if !found[pattern] {
					t.Errorf("it adds no %s", pattern)
				}
			}
		})
	}
	for _, name := range switches(t) {
		if !listed[name] {
			t.Errorf("the README does not list the switch %s", name)
		}
	}
}

// switches returns the values named enabled.
func switches(t *testing.T) []string {
	t.Helper()
	values := map[string]any{}
	if err := yaml.Unmarshal(read(t, "values.yaml"), &values); err != nil {
		t.Fatal(err)
	}
	var names []string
	var walk func(string, map[string]any)
	walk = func(prefix string, values map[string]any) {
		for name, value := range values {
			if inner, ok := value.(map[string]any); ok {
				walk(prefix+name+".", inner)
			} else if name == "enabled" {
				names = append(names, prefix+name)
			}
		}
	}
	walk("", values)
	return names
}

// matches reports whether a name matches a pattern, whose * is any text.
func matches(pattern, text string) bool {
	matched, err := path.Match(pattern, text)
	return err == nil && matched
}

// Artifact Hub shows each CRD with an example that is valid for its type.
func TestArtifactHubShowsEachCRD(t *testing.T) {
	t.Parallel()
	chart := struct{ Annotations map[string]string }{}
	if err := yaml.Unmarshal(read(t, "Chart.yaml"), &chart); err != nil {
		t.Fatal(err)
	}
	var shown []struct{ Kind, Version, Name string }
	var examples []map[string]any
	for annotation, into := range map[string]any{"artifacthub.io/crds": &shown, "artifacthub.io/crdsExamples": &examples} {
		if err := yaml.Unmarshal([]byte(chart.Annotations[annotation]), into); err != nil {
			t.Fatalf("%s: %v", annotation, err)
		}
	}
	var names []string
	for _, crd := range shown {
		names = append(names, crd.Name)
	}
	slices.Sort(names)
	if want := render(t, "helm").ofKind("CustomResourceDefinition"); !slices.Equal(names, want) {
		t.Errorf("Artifact Hub shows %v, the chart has %v", names, want)
	}
	types := map[string]any{
		"BrokerConnection": &v1alpha1.BrokerConnection{}, "ConsumerQueue": &v1alpha1.ConsumerQueue{},
		"Redrive": &v1alpha1.Redrive{}, "Purge": &v1alpha1.Purge{},
	}
	for _, example := range examples {
		kind, _ := example["kind"].(string)
		convert(t, example, types[kind])
		delete(types, kind)
	}
	if len(types) > 0 {
		t.Errorf("there is no example of %v", slices.Collect(maps.Keys(types)))
	}
}

// The example values in the README can be installed.
func TestReadmeExamplesRender(t *testing.T) {
	t.Parallel()
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(read(t, "README.md.gotmpl")), -1)
	if len(examples) == 0 {
		t.Fatal("the README has no example")
	}
	for _, example := range examples {
		expectDecodable(t, renderValues(t, example[1]))
	}
}
