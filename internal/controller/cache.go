package controller

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/ownership"
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
			return nil, fmt.Errorf("--watch-namespaces=%q: %q is not the name of a namespace: %s; give names separated by commas, "+
				"or leave the flag out to watch all", list, name, strings.Join(problems, ", "))
		}
		namespaces[name] = cache.Config{}
	}
	return namespaces, nil
}

// slim removes the fields of cached objects that no code reads. It moves the intents of a ConsumerQueue from the annotation into the
// status. It keeps only the identity of a Secret, because the annotation of kubectl apply contains passwords.
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
	return cache.TransformStripManagedFields()(object)
}
