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

// CacheOptions say what the manager watches and keeps in memory: all namespaces, or those that a list names, separated by
// commas.
func CacheOptions(watchNamespaces string) (cache.Options, error) {
	namespaces, err := parseNamespaces(watchNamespaces)
	if err != nil {
		return cache.Options{}, err
	}
	return cache.Options{DefaultNamespaces: namespaces, DefaultTransform: slim}, nil
}

// parseNamespaces returns nil, which means all, for an empty list only: an empty name between two commas would mean all
// as well, and is a slip.
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

// slim leaves out what nobody reads here. What a ConsumerQueue has in its annotation of intents is in the status from here on. Of
// a Secret, the only kind whose metadata is watched, nothing but its name stays: what kubectl apply was given, it keeps in an
// annotation, passwords included.
func slim(object any) (any, error) {
	if metadata, ok := object.(*metav1.PartialObjectMetadata); ok {
		metadata.ObjectMeta = metav1.ObjectMeta{
			Namespace: metadata.Namespace, Name: metadata.Name, UID: metadata.UID, ResourceVersion: metadata.ResourceVersion,
		}
		return metadata, nil
	}
	if cq, ok := object.(*v1alpha1.ConsumerQueue); ok {
		ownership.RestoreIntents(cq) // which needs the managed fields
		compact(cq)
	}
	return cache.TransformStripManagedFields()(object)
}
