package controller

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/ownership"
	"github.com/warren-mq/warren/internal/text"
)

// CacheOptions returns options to watch and cache the namespaces of a comma-separated list; all namespaces if it is empty.
func CacheOptions(watchNamespaces string) (cache.Options, error) {
	namespaces, err := parseNamespaces(watchNamespaces)
	if err != nil {
		return cache.Options{}, err
	}
	return cache.Options{DefaultNamespaces: namespaces, DefaultTransform: slim}, nil
}

// parseNamespaces returns nil, which means all namespaces, for an empty list. An empty name between two commas is an error, because
// the cache would watch all namespaces.
func parseNamespaces(list string) (map[string]cache.Config, error) {
	if list == "" {
		return nil, nil
	}
	namespaces := map[string]cache.Config{}
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			return nil, fmt.Errorf("--watch-namespaces is %q, but %q is not the name of a namespace (%s): separate names with commas, "+
				"or leave the flag out to watch all namespaces", list, name, strings.Join(problems, ", "))
		}
		namespaces[name] = cache.Config{}
	}
	return namespaces, nil
}

// readAnnotations are the annotations that the code reads from cached objects. slim has already moved the intents into the status.
var readAnnotations = []string{
	v1alpha1.RequestedAtAnnotation, v1alpha1.CompletedAtAnnotation,
	v1alpha1.ApproveRecreationAnnotation, v1alpha1.AbortRecreationAnnotation,
}

// maxAnnotation limits the value of a cached annotation, in bytes. trigger.RequestedAt truncates values to this size. Valid values of the
// other annotations are shorter.
const maxAnnotation = 1024

// slim removes the fields of cached objects that no code reads. It moves the intents of a ConsumerQueue from the annotation into the
// status. It keeps only the identity of a Secret, because the annotation of kubectl apply contains passwords.
//
// Users choose the number and size of annotations and labels. An object can have 256 KiB of annotations, and more than 1 MiB of labels.
// Warren writes metadata by merge patches only, so the API server keeps what the cache lacks.
func slim(object any) (any, error) {
	if metadata, ok := object.(*metav1.PartialObjectMetadata); ok {
		metadata.ObjectMeta = metav1.ObjectMeta{
			Namespace: metadata.Namespace, Name: metadata.Name, UID: metadata.UID, ResourceVersion: metadata.ResourceVersion,
		}
		return metadata, nil
	}
	if cq, ok := object.(*v1alpha1.ConsumerQueue); ok {
		ownership.RestoreIntents(cq) // needs the managed fields
		compact(cq)
	}
	if named, ok := object.(metav1.Object); ok {
		named.SetManagedFields(nil)
		named.SetAnnotations(slimAnnotations(named.GetAnnotations()))
		named.SetLabels(slimLabels(named.GetLabels()))
	}
	return object, nil
}

func slimAnnotations(given map[string]string) map[string]string {
	var kept map[string]string
	for _, name := range readAnnotations {
		if value, found := given[name]; found {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[name] = text.Truncate(value, maxAnnotation)
		}
	}
	return kept
}

// slimLabels returns the labels, or only the label of Velero if they are too large.
func slimLabels(given map[string]string) map[string]string {
	if text.AreLabelsSmall(given) {
		return given
	}
	if value, found := given[v1alpha1.ExcludeFromBackupLabel]; found {
		return map[string]string{v1alpha1.ExcludeFromBackupLabel: value}
	}
	return nil
}
