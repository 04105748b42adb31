package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the API group and version of Warren's resources.
	GroupVersion = schema.GroupVersion{Group: "messaging.warren.dev", Version: "v1alpha1"}

	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme registers Warren's resources with a scheme.
	AddToScheme = schemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&BrokerConnection{}, &BrokerConnectionList{},
		&ConsumerQueue{}, &ConsumerQueueList{},
		&Redrive{}, &RedriveList{},
		&Purge{}, &PurgeList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
