package chart

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

const (
	root = "../.."
	// system is the namespace of the operator.
	system = "warren-system"
)

// helms are the major versions of Helm in use, by their names in hack/tool.sh.
var helms = []string{"helm", "helm3"}

// objects are rendered objects by kind, namespace and name.
type objects map[string]*unstructured.Unstructured

// render renders the chart with further arguments.
func render(t *testing.T, helm string, args ...string) objects {
	t.Helper()
	output, err := template(t, helm, args...)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, output)
}

// renderValues is render with the text of a values file.
func renderValues(t *testing.T, values string) objects {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	return render(t, "helm", "--values="+file)
}

// template is render for values that may be refused.
func template(t *testing.T, helm string, args ...string) ([]byte, error) {
	t.Helper()
	return run(t, append([]string{helm, "template", "warren", "charts/warren", "--namespace=" + system, "--kube-version=1.37.0"}, args...)...)
}

// kustomize renders a kustomization.
func kustomize(t *testing.T, folder string) objects {
	t.Helper()
	output, err := run(t, "kustomize", "build", folder)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, output)
}

// run runs a pinned tool at the root of the repository.
func run(t *testing.T, args ...string) ([]byte, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "hack/tool.sh", args...)
	command.Dir = root
	output, err := command.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%v: %w: %s", args, err, failed.Stderr)
	}
	return output, err
}

func parse(t *testing.T, text []byte) objects {
	t.Helper()
	found := objects{}
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{}
		if err := sigsyaml.UnmarshalStrict(document, &object.Object); err != nil { // strict, so that a duplicate key is an error
			t.Fatalf("%v:\n%s", err, document)
		}
		if len(object.Object) == 0 {
			continue
		}
		name := key(object.GetKind(), object.GetNamespace(), object.GetName())
		if found[name] != nil {
			t.Errorf("%s exists twice", name)
		}
		found[name] = object
	}
}

func key(kind, namespace, name string) string { return kind + " " + namespace + "/" + name }

// get returns an object. The operator's namespace is the default.
func (o objects) get(t *testing.T, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, namespace := range []string{system, "", "monitoring", "grafana"} {
		if object := o[key(kind, namespace, name)]; object != nil {
			return object
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return nil
}

// ofKind returns the names of the objects of a kind, sorted.
func (o objects) ofKind(kind string) []string {
	var names []string
	for _, object := range o {
		if object.GetKind() == kind {
			names = append(names, object.GetName())
		}
	}
	slices.Sort(names)
	return names
}
