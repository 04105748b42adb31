package deadletterapi

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
)

// addDiscovery serves the list of resources to the API server, and to clients that come through it.
func addDiscovery(mux *http.ServeMux) {
	group, version := v1alpha1.GroupVersion.Group, v1alpha1.GroupVersion.Version
	versioned := metav1.GroupVersionForDiscovery{GroupVersion: v1alpha1.GroupVersion.String(), Version: version}
	own := metav1.APIGroup{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: group,
		Versions: []metav1.GroupVersionForDiscovery{versioned}, PreferredVersion: versioned,
	}
	for path, body := range map[string]any{
		"/apis": metav1.APIGroupList{
			TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{own},
		},
		"/apis/" + group: own,
		"/apis/" + v1alpha1.GroupVersion.String(): metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: v1alpha1.GroupVersion.String(),
			APIResources: []metav1.APIResource{
				{
					Name: v1alpha1.Resource, SingularName: "deadletterqueue", Namespaced: true, Kind: v1alpha1.KindDeadLetterQueue,
					Verbs: metav1.Verbs{"get", "list"}, ShortNames: []string{"dlq"}, Categories: []string{"warren"},
				},
				{
					Name: v1alpha1.Resource + "/" + v1alpha1.SubresourceMessages, Namespaced: true,
					Kind: v1alpha1.KindDeadLetterList, Verbs: metav1.Verbs{"get"},
				},
				{
					Name: v1alpha1.Resource + "/" + v1alpha1.SubresourceExport, Namespaced: true,
					Kind: v1alpha1.KindExportedDeadLetter, Verbs: metav1.Verbs{"get"},
				},
			},
		},
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, body) })
	}
}
