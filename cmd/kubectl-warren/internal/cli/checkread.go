package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi3"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	deadletters "github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/check"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/jobs"
)

// checkReader reads the input of the checks.
type checkReader struct {
	session

	cluster *cluster
	api     apiFlags
	all     bool
	// only is the namespace of --warren-namespace. If it is empty, the checks search for managers in all namespaces.
	only          string
	pluginVersion string
}

// installation checks everything that Warren needs in the namespace.
func (r *checkReader) installation(ctx context.Context) ([]check.Result, error) {
	served, err := r.served()
	if err != nil {
		return nil, err
	}
	operator := r.readOperator(ctx)
	crds := check.CRDs(served, r.pluginVersion)
	results := []check.Result{crds}
	if crds.State != check.Failed {
		asked, isServed := r.listDeadLetters(ctx)
		results = append(results, r.roles(ctx, isServed)...)
		results = append(results, check.DeadLetterAPI(asked))
		results = append(results, r.connections(ctx)...)
	}
	return slices.Concat(operator.results(ctx, r), results), nil
}

// leftovers lists the objects whose deletion needs a manager.
func (r *checkReader) leftovers(ctx context.Context) ([]check.Result, error) {
	operator := r.readOperator(ctx)
	redrives, purges, forbidden, err := jobs.List(ctx, r, r.inNamespace(r.all)...)
	if err := errors.Join(err, forbidden); err != nil {
		return nil, err
	}
	queues, connections, err := r.resources(ctx)
	if err != nil {
		return nil, err
	}
	return append(operator.results(ctx, r), check.Uninstall(jobs.All(redrives, purges), queues, connections, r.where(r.all))...), nil
}

// operator is the state of the managers at the first read.
type operator struct {
	managers []check.Manager
	err      error
	leases   []check.Lease
	read     time.Time
}

// readOperator reads the Deployments of the managers and their Leases. results reads the Leases again.
func (r *checkReader) readOperator(ctx context.Context) operator {
	var found operator
	found.managers, found.err = r.managers(ctx, r.only)
	for _, namespace := range namespacesOf(found.managers, r.api.warrenNamespace) {
		lease := check.Lease{Namespace: namespace}
		lease.First, lease.Err = r.lease(ctx, namespace)
		found.leases = append(found.leases, lease)
	}
	found.read = time.Now()
	return found
}

func (r *checkReader) lease(ctx context.Context, namespace string) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	err := r.Get(ctx, client.ObjectKey{Namespace: namespace, Name: check.LeaseName}, lease)
	return lease, err
}

// results reads the Leases again until they are renewed, and checks the managers.
func (o operator) results(ctx context.Context, r *checkReader) []check.Result {
	var results []check.Result
	for _, lease := range o.leases {
		if lease.Err == nil {
			lease.Last, lease.Err = r.renewed(ctx, lease.First)
			lease.Waited = time.Since(o.read)
		}
		results = append(results, check.Leader(lease))
	}
	return append(results, check.Managers(o.managers, r.pluginVersion, o.err)...)
}

// renewed reads a Lease until it is renewed, for at most its duration.
func (r *checkReader) renewed(ctx context.Context, first *coordinationv1.Lease) (last *coordinationv1.Lease, err error) {
	const interval = 200 * time.Millisecond
	last = first
	if ptr.Deref(first.Spec.HolderIdentity, "") == "" {
		return last, nil
	}
	timeout := time.Duration(ptr.Deref(first.Spec.LeaseDurationSeconds, 15)) * time.Second
	err = wait.PollUntilContextTimeout(ctx, interval, timeout, true, func(ctx context.Context) (bool, error) {
		lease, err := r.lease(ctx, first.Namespace)
		if err != nil {
			return false, err
		}
		last = lease
		return !last.Spec.RenewTime.Equal(first.Spec.RenewTime), nil
	})
	if wait.Interrupted(err) { // not renewed
		err = nil
	}
	return last, err
}

// served reads which resources the API server serves, and their fields.
func (r *checkReader) served() (check.Served, error) {
	config, err := r.cluster.flags.ToRESTConfig()
	if err != nil {
		return check.Served{}, err
	}
	reader, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return check.Served{}, err
	}
	list, err := reader.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	switch {
	case apierrors.IsNotFound(err):
		return check.Served{}, nil
	case err != nil:
		return check.Served{}, err
	}
	served := check.Served{}
	for _, resource := range list.APIResources {
		served.Resources = append(served.Resources, resource.Name)
	}
	served.Schemas, err = schemasOf(reader)
	return served, err
}

// schemaPrefix is the prefix of the names of Warren's schemas in an OpenAPI document.
const schemaPrefix = "dev.warren.messaging.v1alpha1."

// schemasOf reads the fields of Warren's resources in the API server's OpenAPI document.
func schemasOf(reader discovery.OpenAPIV3SchemaInterface) (map[string]check.Fields, error) {
	document, err := openapi3.NewRoot(reader.OpenAPIV3()).GVSpec(v1alpha1.GroupVersion)
	if err != nil {
		return nil, fmt.Errorf("read the OpenAPI document of %s: %w", v1alpha1.GroupVersion, err)
	}
	schemas := map[string]check.Fields{}
	for resource, kind := range check.Resources {
		if schema := document.Components.Schemas[schemaPrefix+kind.Name()]; schema != nil {
			schemas[resource] = fieldsOf(schema)
		}
	}
	return schemas, nil
}

// fieldsOf returns the fields of a schema; for a list, the fields of its items.
func fieldsOf(schema *spec.Schema) check.Fields {
	if schema.Items != nil && schema.Items.Schema != nil {
		return fieldsOf(schema.Items.Schema)
	}
	if len(schema.Properties) == 0 {
		return nil
	}
	fields := check.Fields{}
	for name, property := range schema.Properties {
		fields[name] = fieldsOf(&property)
	}
	return fields
}

// listDeadLetters lists dead-letter queues through the dead-letter API.
func (r *checkReader) listDeadLetters(ctx context.Context) (asked check.DeadLetters, isServed bool) {
	asked.Namespace = r.namespace
	reader, err := r.cluster.deadLettersOf(ctx, r.namespace, r.api, func(string) {})
	if err != nil {
		asked.Err = err
		return asked, false
	}
	asked.Connected = true
	answer, err := reader.List(ctx)
	if err == nil {
		_, err = io.Copy(io.Discard, answer)
		_ = answer.Close()
	}
	asked.Err = err
	return asked, reader.IsServed()
}

// roles asks the API server what the user may do.
func (r *checkReader) roles(ctx context.Context, deadLettersServed bool) []check.Result {
	group := v1alpha1.GroupVersion.Group
	asked := []check.Permission{
		{Role: "view", Verb: "list", Group: group, Resource: "brokerconnections"},
		{Role: "view", Verb: "list", Group: group, Resource: "consumerqueues"},
		{Role: "view", Verb: "list", Group: group, Resource: "redrives"},
		{Role: "view", Verb: "list", Group: group, Resource: "purges"},
		{Role: "edit", Verb: "create", Group: group, Resource: "consumerqueues"},
		{Role: "edit", Verb: "create", Group: group, Resource: "redrives"},
		{Role: "admin", Verb: "create", Group: group, Resource: "purges"},
	}
	if deadLettersServed { // otherwise the ServiceAccount needs these
		group := deadletters.GroupVersion.Group
		asked = append(asked,
			check.Permission{Role: "view", Verb: "list", Group: group, Resource: deadletters.Resource},
			check.Permission{
				Role: "edit", Verb: "get", Group: group, Resource: deadletters.Resource, Subresource: deadletters.SubresourceMessages,
			},
			check.Permission{
				Role: "admin", Verb: "get", Group: group, Resource: deadletters.Resource, Subresource: deadletters.SubresourceExport,
			})
	}
	namespace := r.namespace
	if r.all {
		namespace = ""
	}
	for i := range asked {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: namespace, Verb: asked[i].Verb, Group: asked[i].Group,
				Resource: asked[i].Resource, Subresource: asked[i].Subresource,
			},
		}}
		if err := r.Create(ctx, review); err != nil {
			return check.Roles(namespace, nil, err)
		}
		asked[i].Allowed = review.Status.Allowed
	}
	return check.Roles(namespace, asked, nil)
}

func (r *checkReader) connections(ctx context.Context) []check.Result {
	queues, connections, err := r.resources(ctx)
	if err != nil {
		return []check.Result{check.Unread("connection", "BrokerConnections and ConsumerQueues", err)}
	}
	return check.Connections(connections, queues, r.where(r.all))
}

func (r *checkReader) resources(ctx context.Context) ([]v1alpha1.ConsumerQueue, []v1alpha1.BrokerConnection, error) {
	queues, err := r.consumerQueues(ctx, r.all)
	if err != nil {
		return nil, nil, err
	}
	connections := &v1alpha1.BrokerConnectionList{}
	err = r.List(ctx, connections, r.inNamespace(r.all)...)
	return queues.Items, connections.Items, err
}
