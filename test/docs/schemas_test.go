package docs

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// schemas is the location of a resource's schema for kubeconform, as in docs/editors.md.
const schemas = "docs/reference/schemas/{{.Group}}/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json"

// All samples are valid by our schemas. Secrets beside them have no schema here.
func TestSamplesConform(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(root, "config/samples/*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, file := range files {
		if name := filepath.Base(file); name != "kustomization.yaml" {
			texts = append(texts, read(t, "config/samples/"+name))
		}
	}
	expectConform(t, texts)
}

// Our resources in the documentation are valid, too. test/e2e checks rules across fields with the API server.
func TestResourcesInPagesConform(t *testing.T) {
	t.Parallel()
	var texts []string
	for _, page := range allPages(t) {
		for _, block := range regexp.MustCompile("(?ms)^( *)```yaml\n(.*?)^ *```").FindAllStringSubmatch(read(t, page), -1) {
			if strings.Contains(block[2], "apiVersion: messaging.warren.dev/") {
				texts = append(texts, regexp.MustCompile("(?m)^"+block[1]).ReplaceAllString(block[2], "")) // blocks in lists are indented
			}
		}
	}
	expectConform(t, texts)
}

// The conformance vectors have no status. The testdata for Argo CD and kubectl warren has one; test/gitops recorded most of it.
func TestResourcesWithStatusConform(t *testing.T) {
	t.Parallel()
	var texts []string
	for _, pattern := range []string{
		"test/conformance/*/consumerqueues.yaml",
		"config/argocd/resource_customizations/messaging.warren.dev/*/testdata/*.yaml",
		"cmd/kubectl-warren/internal/cli/testdata/foreign.yaml",
	} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("no file matches %s: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, string(text))
		}
	}
	expectConform(t, texts)
}

// Editors mark what the schemas refuse before the API server does.
func TestInvalidResourcesDoNotConform(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ kind, spec, want string }{
		"a misspelt field":        {"ConsumerQueue", `{retry: {delayTier: []}}`, "additional properties 'delayTier' not allowed"},
		"a value not in the enum": {"ConsumerQueue", `{retry: {strategy: Republish}}`, "value must be one of"},
		"a string for a number":   {"ConsumerQueue", `{queue: {maxLength: many}}`, "got string, want integer"},
		"a name of no namespace":  {"ConsumerQueue", `{deadLetter: {queue: {sharedWith: [Shop]}}}`, "does not match pattern"},
		"a reference to nothing":  {"BrokerConnection", `{secretRef: {}}`, "missing property 'name'"},
		"no spec":                 {"ConsumerQueue", `null`, "got null, want object"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := conform(t, "apiVersion: messaging.warren.dev/v1alpha1\nkind: "+test.kind+"\nmetadata: {name: a}\nspec: "+test.spec+"\n")
			if len(found) != 1 || found[0].Status != "statusInvalid" || !strings.Contains(found[0].Msg, test.want) {
				t.Errorf("found %+v, want %s", found, test.want)
			}
		})
	}
}

// all.json refers to the schema of each kind, by existing paths.
func TestSchemaOfAllKinds(t *testing.T) {
	t.Parallel()
	schema := struct {
		AllOf []struct {
			If struct {
				Properties struct{ Kind struct{ Const string } }
			}
			Then struct {
				Ref string `json:"$ref"`
			}
		}
	}{}
	if err := json.Unmarshal([]byte(read(t, "docs/reference/schemas/all.json")), &schema); err != nil {
		t.Fatal(err)
	}
	var found, want []string
	for _, one := range schema.AllOf {
		found = append(found, one.If.Properties.Kind.Const)
		if _, err := os.Stat(filepath.Join(root, "docs/reference/schemas", one.Then.Ref)); err != nil {
			t.Error(err)
		}
	}
	for _, crd := range crds(t) {
		want = append(want, crd.Spec.Names.Kind)
	}
	sameSet(t, "kinds", found, want)
}

// allPages returns all Markdown files of the documentation, including generated ones.
func allPages(t *testing.T) []string {
	t.Helper()
	list := []string{"README.md", "CONTRIBUTING.md"}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			list = append(list, strings.TrimPrefix(filepath.ToSlash(path), root+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// conformity is kubeconform's result for a resource.
type conformity struct{ Kind, Name, Status, Msg string }

// conform runs kubeconform as docs/editors.md describes.
func conform(t *testing.T, text string) []conformity {
	t.Helper()
	command := exec.CommandContext(t.Context(), "hack/tool.sh", "kubeconform", "-strict", "-output=json", "-verbose",
		"-skip=Secret", "-schema-location="+schemas)
	command.Dir = root
	command.Stdin = strings.NewReader(text)
	var failed *exec.ExitError
	output, err := command.Output()
	if err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	found := struct{ Resources []conformity }{}
	if err := json.Unmarshal(output, &found); err != nil {
		t.Fatalf("kubeconform: %v: %s", err, output)
	}
	return found.Resources
}

// expectConform fails for each invalid resource in the texts, and if kubeconform has not checked all of them.
func expectConform(t *testing.T, texts []string) {
	t.Helper()
	var documents []string
	for _, text := range texts {
		for document := range strings.SplitSeq(text, "\n---\n") {
			object := map[string]any{}
			if err := yaml.Unmarshal([]byte(document), &object); err != nil {
				t.Errorf("%v:\n%s", err, document)
			} else if len(object) > 0 {
				documents = append(documents, document)
			}
		}
	}
	seen := 0
	for _, found := range conform(t, strings.Join(documents, "\n---\n")) {
		switch {
		case found.Status == "statusValid":
			seen++
		case found.Status == "statusSkipped" && found.Kind == "Secret":
			seen++
		default:
			t.Errorf("%s %s: %s %s", found.Kind, found.Name, found.Status, found.Msg)
		}
	}
	if seen != len(documents) || seen == 0 {
		t.Errorf("kubeconform has found %d of %d resources to be valid", seen, len(documents))
	}
}
