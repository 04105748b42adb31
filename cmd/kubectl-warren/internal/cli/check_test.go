package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// emptyCluster is an API server with Warren's resources, of which there are none.
func emptyCluster(t *testing.T) *httptest.Server {
	t.Helper()
	const version = "messaging.warren.dev/v1alpha1"
	kinds := map[string]string{
		"consumerqueues": "ConsumerQueue", "brokerconnections": "BrokerConnection", "redrives": "Redrive", "purges": "Purge",
	}
	resources := make([]string, 0, len(kinds))
	for name, kind := range kinds {
		resources = append(resources, fmt.Sprintf(`{"name": %q, "namespaced": true, "kind": %q, "verbs": ["list"]}`, name, kind))
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		switch {
		case r.URL.Path == "/apis":
			_, _ = fmt.Fprintf(w, `{"kind": "APIGroupList", "apiVersion": "v1", "groups": [{"name": "messaging.warren.dev",
				"versions": [{"groupVersion": %q, "version": "v1alpha1"}]}]}`, version)
		case r.URL.Path == "/apis/"+version:
			_, _ = fmt.Fprintf(w, `{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": %q, "resources": [%s]}`, version,
				strings.Join(resources, ","))
		case kinds[name] != "":
			_, _ = fmt.Fprintf(w, `{"kind": "%sList", "apiVersion": %q, "items": []}`, kinds[name], version)
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// The order of deletion must not name namespaces that the user did not: another Warren can work there, and would delete its queues.
func TestOrderOfDeletion(t *testing.T) {
	t.Parallel()
	server := emptyCluster(t)
	const everywhere = "  kubectl delete redrives,purges,consumerqueues --all --all-namespaces\n" +
		"  kubectl delete brokerconnections --all --all-namespaces\n" +
		"  kubectl warren check --uninstall\n"
	for args, want := range map[string]string{
		"check --uninstall":                     everywhere,
		"check --uninstall --namespace shop -A": everywhere,
		"check --uninstall --namespace shop": "  kubectl --namespace shop delete redrives,purges,consumerqueues --all\n" +
			"  kubectl --namespace shop delete brokerconnections --all\n" +
			"  kubectl warren check --uninstall --namespace shop\n",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			got := run(t, "", append(strings.Fields(args), "--server="+server.URL)...)
			_, order, _ := strings.Cut(got.out, "until the last command finds nothing:\n")
			if order, _, _ = strings.Cut(order, "To keep every queue"); order != want {
				t.Errorf("the order is\n%swant\n%s%s%s", order, want, got.out, got.errOut)
			}
		})
	}
}

// Without the permission to list Purges, a user cannot know which Purges have not ended.
func TestLeftoversThatCannotBeListed(t *testing.T) {
	t.Parallel()
	kube := fakeSession(t, interceptor.Funcs{
		List: func(ctx context.Context, kube client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, ofPurges := list.(*v1alpha1.PurgeList); ofPurges {
				return apierrors.NewForbidden(schema.GroupResource{}, "", nil)
			}
			return kube.List(ctx, list, options...)
		},
	})
	if results, err := (&checkReader{session: kube}).leftovers(t.Context()); !apierrors.IsForbidden(err) {
		t.Errorf("results %+v, error %v", results, err)
	}
}
