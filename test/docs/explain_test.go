package docs

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// kubectl explain shows the descriptions in the CRDs. Each field has one that says more than the names in the path of the field.
func TestEveryFieldIsExplained(t *testing.T) {
	t.Parallel()
	for _, crd := range crds(t) {
		for _, version := range crd.Spec.Versions {
			fields := 0
			walk(crd.Spec.Names.Kind, version.Schema.OpenAPIV3Schema, func(path, description string) {
				fields++
				if len(newWords(description, path)) < 3 {
					t.Errorf("%s: the description %q says no more than the name: say what the field does, or which values it has", path, description)
				}
			})
			if fields < 30 {
				t.Errorf("%s has only %d fields", crd.Name, fields)
			}
		}
	}
}

func TestDescriptionsThatSayNothing(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		path, description string
		want              []string
	}{
		{"Kind.spec.queue.name", "", nil},
		{"Kind.spec.queue.name", "name of the queue.", nil},
		{"Kind.spec.queue.messageTTL", "messageTTL is the message TTL of the queue.", nil},
		{"Kind.spec.secretRef.name", "The name of the Secret.", nil},
		{"Kind.spec.delay", "delay is how long a message waits.", []string{"how", "long", "message", "waits"}},
		{"Kind.spec.queue.name", "name of the main queue, the resource's name if not given.", []string{"main", "resource", "given"}},
	} {
		if got := newWords(test.description, test.path); !slices.Equal(got, test.want) {
			t.Errorf("%s, %q: %v, want %v", test.path, test.description, got, test.want)
		}
	}
}

// crds returns the CRDs that `make manifests` generates.
func crds(t *testing.T) []apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "config/crd/bases/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("found %v, %v", files, err)
	}
	list := make([]apiextensionsv1.CustomResourceDefinition, len(files))
	for i, file := range files {
		if err := yaml.UnmarshalStrict([]byte(read(t, "config/crd/bases/"+filepath.Base(file))), &list[i]); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// walk calls visit for each field of a schema, except metadata, which Kubernetes documents.
func walk(path string, schema *apiextensionsv1.JSONSchemaProps, visit func(path, description string)) {
	for name, field := range schema.Properties {
		if name == "metadata" {
			continue
		}
		visit(path+"."+name, field.Description)
		walk(path+"."+name, &field, visit)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		walk(path, schema.Items.Schema, visit)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		walk(path, schema.AdditionalProperties.Schema, visit)
	}
}

var (
	word = regexp.MustCompile(`[A-Z]+s?\b|[A-Z]?[a-z]+|[0-9]+`)
	// small are words that explain nothing.
	small = strings.Fields("a an and are as at be by for has have if in is it its no not of on or ref s that the this to was which with")
)

// newWords returns the words of a description that are neither small words nor in the path of its field.
func newWords(description, path string) []string {
	known := words(path)
	return slices.DeleteFunc(words(description), func(w string) bool {
		return slices.Contains(small, w) || slices.Contains(known, w) || slices.Contains(known, strings.TrimSuffix(w, "s")) || slices.Contains(known, w+"s")
	})
}

// words splits a text, and names such as queueName, into lower-case words without duplicates.
func words(text string) []string {
	var list []string
	for _, found := range word.FindAllString(text, -1) {
		if found = strings.ToLower(found); !slices.Contains(list, found) {
			list = append(list, found)
		}
	}
	return list
}
