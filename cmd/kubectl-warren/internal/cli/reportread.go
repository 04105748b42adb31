package cli

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/check"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/jobs"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/redact"
	"github.com/warren-mq/warren/internal/buildinfo"
)

// The limits of each log in a report.
const (
	maxLogLines = 5000
	maxLogBytes = 8 << 20
)

// reporter reads the content of a report, and adds it to a bundle. The type of each read decides which fields are published.
type reporter struct {
	*checkReader

	bundle *bundle
	// missing describes the parts that could not be read.
	missing []string
	// warrenNamespaces are the namespaces of the managers.
	warrenNamespaces []string
}

// collect adds all parts. It returns an error only if the bundle cannot be written.
func (r *reporter) collect(ctx context.Context, results []check.Result) error {
	managers, err := r.managers(ctx, r.only)
	r.miss("Deployments of the manager", err)
	r.warrenNamespaces = namespacesOf(managers, r.api.warrenNamespace)
	info := buildinfo.Get()
	all := versions{Client: clientVersion{info.Version, info.Revision, info.GoVersion}, Managers: managers}
	for _, step := range []func() error{
		func() error { return r.addChecks(results) },
		func() error { return r.bundle.addYAML("versions.yaml", all) },
		func() error { return r.addCRDs(ctx) },
		func() error { return r.addResources(ctx) },
		func() error { return r.addEvents(ctx) },
		func() error { return r.addManagers(ctx) },
		func() error { return r.bundle.addLines("errors.txt", r.missing) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// miss records that a part could not be read.
func (r *reporter) miss(part string, err error) {
	if err != nil {
		r.missing = append(r.missing, part+": "+explain(err))
	}
}

// addChecks adds what the command check prints.
func (r *reporter) addChecks(results []check.Result) error {
	out := &bytes.Buffer{}
	printChecks(out, results, false)
	return r.bundle.addLines("check.txt", strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n"))
}

// addCRDs adds the versions of Warren's CRDs.
func (r *reporter) addCRDs(ctx context.Context) error {
	published := map[string]any{}
	for resource := range check.Resources {
		crd := &unstructured.Unstructured{}
		crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
		name := resource + "." + v1alpha1.GroupVersion.Group
		if err := r.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
			r.miss("CustomResourceDefinition "+name, err)
			continue
		}
		stored, _, _ := unstructured.NestedStringSlice(crd.Object, "status", "storedVersions")
		published[name] = map[string]any{
			"generation": crd.GetGeneration(), "storedVersions": stored, "version": crd.GetLabels()["app.kubernetes.io/version"],
		}
	}
	return r.bundle.addYAML("crds.yaml", published)
}

// addResources adds Warren's resources, one file each.
func (r *reporter) addResources(ctx context.Context) error {
	queues, err := r.consumerQueues(ctx, r.all)
	r.miss("ConsumerQueues", err)
	connections := &v1alpha1.BrokerConnectionList{}
	r.miss("BrokerConnections", r.List(ctx, connections, r.inNamespace(r.all)...))
	redrives, purges := &v1alpha1.RedriveList{}, &v1alpha1.PurgeList{}
	r.miss("Redrives", r.List(ctx, redrives, r.inNamespace(r.all)...))
	r.miss("Purges", r.List(ctx, purges, r.inNamespace(r.all)...))
	objects := map[string][]client.Object{}
	for i := range queues.Items {
		objects["consumerqueues"] = append(objects["consumerqueues"], &queues.Items[i])
	}
	for i := range connections.Items {
		objects["brokerconnections"] = append(objects["brokerconnections"], &connections.Items[i])
	}
	for _, job := range jobs.All(redrives.Items, purges.Items) {
		kind := string(job.Kind) + "s"
		objects[kind] = append(objects[kind], job.Object)
	}
	for kind, list := range objects {
		for _, object := range list {
			published, err := redact.Resource(object)
			if err != nil {
				return err
			}
			file := path.Join("namespaces", object.GetNamespace(), kind, object.GetName()+".yaml")
			if err := r.bundle.addYAML(file, published); err != nil {
				return err
			}
		}
	}
	return nil
}

// addEvents adds the Events of the reported namespaces.
func (r *reporter) addEvents(ctx context.Context) error {
	list := &eventsv1.EventList{}
	r.miss("Events", r.List(ctx, list, r.inNamespace(r.all)...))
	byNamespace := map[string][]eventsv1.Event{}
	for _, event := range list.Items {
		byNamespace[event.Namespace] = append(byNamespace[event.Namespace], event)
	}
	for namespace, events := range byNamespace {
		published := redact.Events(events, false)
		if len(published) == 0 {
			continue
		}
		if err := r.bundle.addYAML(path.Join("namespaces", namespace, "events.yaml"), published); err != nil {
			return err
		}
	}
	return nil
}

// addManagers adds the Deployments, pods, Events, Leases and logs of the managers.
func (r *reporter) addManagers(ctx context.Context) error {
	for _, namespace := range r.warrenNamespaces {
		deployments, pods, events := &appsv1.DeploymentList{}, &corev1.PodList{}, &eventsv1.EventList{}
		within := client.InNamespace(namespace)
		r.miss("Deployments of namespace "+namespace, r.List(ctx, deployments, within, managerSelector()))
		r.miss("pods of namespace "+namespace, r.List(ctx, pods, within, managerSelector()))
		r.miss("Events of namespace "+namespace, r.List(ctx, events, within))
		lease, err := r.lease(ctx, namespace)
		r.miss("Lease of namespace "+namespace, err)
		published := struct {
			Deployments []redact.Deployment `json:"deployments"`
			Pods        []redact.Pod        `json:"pods"`
			Leader      *string             `json:"leader"`
			Events      []redact.Event      `json:"events"`
		}{Leader: lease.Spec.HolderIdentity, Events: redact.Events(events.Items, true)}
		for i := range deployments.Items {
			published.Deployments = append(published.Deployments, redact.DeploymentOf(&deployments.Items[i]))
		}
		for i := range pods.Items {
			published.Pods = append(published.Pods, redact.PodOf(&pods.Items[i]))
		}
		if err := r.bundle.addYAML(path.Join("managers", namespace, "manager.yaml"), published); err != nil {
			return err
		}
		for i := range pods.Items {
			if err := r.addLogs(ctx, &pods.Items[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// addLogs adds the log of a manager's pod, and that of its container before a restart.
func (r *reporter) addLogs(ctx context.Context, pod *corev1.Pod) error {
	config, err := r.cluster.flags.ToRESTConfig()
	if err != nil {
		return err
	}
	core, err := corev1client.NewForConfig(config)
	if err != nil {
		return err
	}
	restarted := slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.Name == managerContainer && s.RestartCount > 0
	})
	for suffix, previous := range map[string]bool{"log": false, "previous.log": true} {
		if previous && !restarted {
			continue
		}
		log, err := core.Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
			Container: managerContainer, Previous: previous, TailLines: new(int64(maxLogLines)), LimitBytes: new(int64(maxLogBytes)),
		}).DoRaw(ctx)
		if err != nil {
			r.miss(fmt.Sprintf("%s of pod %s/%s", suffix, pod.Namespace, pod.Name), err)
			continue
		}
		if err := r.bundle.add(path.Join("managers", pod.Namespace, pod.Name+"."+suffix), redact.Log(log)); err != nil {
			return err
		}
	}
	return nil
}
