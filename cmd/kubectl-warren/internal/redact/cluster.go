package redact

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/warren-mq/warren/api/v1alpha1"
)

// Deployment is the published part of a manager's Deployment. It has the names of environment variables and no values.
type Deployment struct {
	Namespace  string                       `json:"namespace"`
	Name       string                       `json:"name"`
	Version    string                       `json:"version,omitempty"`
	Replicas   int32                        `json:"replicas"`
	Ready      int32                        `json:"readyReplicas"`
	Containers []Container                  `json:"containers"`
	Conditions []appsv1.DeploymentCondition `json:"conditions,omitempty"`
}

// Container is the published part of a container.
type Container struct {
	Name      string                      `json:"name"`
	Image     string                      `json:"image"`
	Args      []string                    `json:"args,omitempty"`
	Env       []string                    `json:"env,omitempty"`
	Resources corev1.ResourceRequirements `json:"resources"`
}

// DeploymentOf returns the published part of a Deployment.
func DeploymentOf(deployment *appsv1.Deployment) Deployment {
	published := Deployment{
		Namespace: deployment.Namespace, Name: deployment.Name, Version: deployment.Labels["app.kubernetes.io/version"],
		Replicas: ptr.Deref(deployment.Spec.Replicas, 1), Ready: deployment.Status.ReadyReplicas,
		Conditions: deployment.Status.Conditions,
	}
	for _, container := range deployment.Spec.Template.Spec.Containers {
		env := make([]string, 0, len(container.Env))
		for _, variable := range container.Env {
			env = append(env, variable.Name)
		}
		published.Containers = append(published.Containers, Container{
			Name: container.Name, Image: container.Image, Args: container.Args, Env: env, Resources: container.Resources,
		})
	}
	return published
}

// Pod is the published part of a manager's pod.
type Pod struct {
	Name       string            `json:"name"`
	Phase      corev1.PodPhase   `json:"phase"`
	Created    metav1.Time       `json:"created"`
	Containers []ContainerStatus `json:"containers,omitempty"`
}

// ContainerStatus is the published part of the status of a container. LastEnd has no message, because that may repeat the log.
type ContainerStatus struct {
	Name         string      `json:"name"`
	ImageID      string      `json:"imageID"`
	Ready        bool        `json:"ready"`
	RestartCount int32       `json:"restartCount"`
	Waiting      string      `json:"waiting,omitempty"`
	LastReason   string      `json:"lastReason,omitempty"`
	LastExitCode int32       `json:"lastExitCode,omitempty"`
	LastEnd      metav1.Time `json:"lastEnd,omitzero"`
}

// PodOf returns the published part of a pod.
func PodOf(pod *corev1.Pod) Pod {
	published := Pod{Name: pod.Name, Phase: pod.Status.Phase, Created: pod.CreationTimestamp}
	for _, status := range pod.Status.ContainerStatuses {
		container := ContainerStatus{Name: status.Name, ImageID: status.ImageID, Ready: status.Ready, RestartCount: status.RestartCount}
		if status.State.Waiting != nil {
			container.Waiting = status.State.Waiting.Reason
		}
		if ended := status.LastTerminationState.Terminated; ended != nil {
			container.LastReason, container.LastExitCode, container.LastEnd = ended.Reason, ended.ExitCode, ended.FinishedAt
		}
		published.Containers = append(published.Containers, container)
	}
	return published
}

// Event is the published part of an Event.
type Event struct {
	Time   metav1.Time `json:"time"`
	Type   string      `json:"type"`
	Reason string      `json:"reason"`
	Object string      `json:"object"`
	Count  int32       `json:"count"`
	Note   string      `json:"note"`
}

// managerKinds are the kinds whose Events are published from Warren's namespaces, besides Warren's own kinds.
var managerKinds = []string{"Deployment", "Lease", "Pod", "ReplicaSet"}

// Events returns the published parts of Events, the oldest first. It publishes Events about Warren's resources and, in Warren's namespaces,
// about managerKinds.
func Events(events []eventsv1.Event, isWarrenNamespace bool) []Event {
	var published []Event
	for i := range events {
		about := events[i].Regarding
		isResource := strings.HasPrefix(about.APIVersion, v1alpha1.GroupVersion.Group+"/")
		if !isResource && (!isWarrenNamespace || !slices.Contains(managerKinds, about.Kind)) {
			continue
		}
		event := Event{
			Time: metav1.NewTime(events[i].EventTime.Time), Type: events[i].Type, Reason: events[i].Reason,
			Object: about.Kind + " " + about.Name, Count: max(events[i].DeprecatedCount, 1), Note: events[i].Note,
		}
		if series := events[i].Series; series != nil {
			event.Time, event.Count = metav1.NewTime(series.LastObservedTime.Time), series.Count
		} else if event.Time.IsZero() {
			event.Time = events[i].DeprecatedLastTimestamp
		}
		published = append(published, event)
	}
	slices.SortStableFunc(published, func(a, b Event) int { return a.Time.Compare(b.Time.Time) })
	return published
}
