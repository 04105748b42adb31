package v1alpha1_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/test/testenv/controlplane"
)

// kube is the client of the API server that all tests of this package share. It refuses unknown fields, as kubectl does.
var kube client.Client

// server is that API server.
var server *controlplane.Server

// schemas are the OpenAPI documents of that API server.
var schemas openapi.Client

func TestMain(m *testing.M) {
	code, err := withAPIServer(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withAPIServer(run func() int) (code int, err error) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return 0, errors.New("these tests need an API server: run make test, or export KUBEBUILDER_ASSETS=$(hack/kubernetes.sh)")
	}
	folder, err := os.MkdirTemp("", "warren")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if server, err = controlplane.Shared(folder, filepath.Join("..", "..", "config", "crd", "bases")); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	discovered, err := discovery.NewDiscoveryClientForConfig(server.Config)
	if err != nil {
		return 0, err
	}
	schemas = discovered.OpenAPIV3()
	lenient, err := server.Client()
	if err != nil {
		return 0, err
	}
	kube = client.WithFieldValidation(lenient, "Strict")
	return run(), nil
}

// object is a Warren resource whose spec is YAML, as a user writes it.
func object(t testing.TB, kind, name, spec string) *unstructured.Unstructured {
	t.Helper()
	parsed := map[string]any{}
	text, err := yaml.YAMLToJSON([]byte(spec))
	if err == nil {
		err = utiljson.Unmarshal(text, &parsed) // integers stay integers
	}
	if err != nil {
		t.Fatalf("spec: %v\n%s", err, spec)
	}
	made := &unstructured.Unstructured{Object: map[string]any{"spec": parsed}}
	made.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	made.SetNamespace("default")
	made.SetName(name)
	return made
}

// unstructuredOf returns a typed object as a client sends it.
func unstructuredOf(t testing.TB, typed client.Object) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		t.Fatal(err)
	}
	delete(content, "status")
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	made := &unstructured.Unstructured{Object: content}
	made.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ConsumerQueue"))
	return made
}

// wantDecodes fails if Go cannot decode the stored object. One such object would break every list.
func wantDecodes(t testing.TB, stored *unstructured.Unstructured) {
	t.Helper()
	text, err := json.Marshal(stored)
	if err != nil {
		t.Fatal(err)
	}
	var into any = &v1alpha1.ConsumerQueue{}
	if stored.GetKind() == "BrokerConnection" {
		into = &v1alpha1.BrokerConnection{}
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Errorf("stored, and yet it cannot be decoded: %v\n%s", err, text)
	}
}

// wantRefused compares the message that a user sees. want has parts separated by …, which must occur in this order, and nothing
// else may be wrong.
func wantRefused(t testing.TB, err error, want string) {
	t.Helper()
	if err == nil {
		t.Errorf("accepted; want it refused: %s", want)
		return
	}
	rest := err.Error()
	for part := range strings.SplitSeq(strings.ReplaceAll(want, " … and … ", " … "), " … ") {
		_, after, found := strings.Cut(rest, part)
		if !found {
			t.Errorf("refused with the wrong message\nwant: %s\ngot:  %v", want, err)
			return
		}
		rest = after
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		t.Fatalf("not refused by the API server: %v", err)
	}
	if complaints(status.Status()) > 1 && !strings.Contains(want, " … and … ") {
		t.Errorf("refused for several reasons, which confuses\nwant: %s\ngot:  %v", want, err)
	}
}

// complaints counts the errors of Warren's rules. For a value of a wrong type, Kubernetes reports several errors of its own, and
// then rules that it could not check.
func complaints(status metav1.Status) int {
	if status.Details == nil {
		return 1
	}
	ours, types := 0, 0
	for _, cause := range status.Details.Causes {
		switch {
		case strings.Contains(cause.Message, "some validation rules were not checked"):
		case strings.Contains(cause.Message, "must be of type"), strings.Contains(cause.Message, "must validate at least one schema"):
			types = 1
		default:
			ours++
		}
	}
	return max(ours, types)
}
