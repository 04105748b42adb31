package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/warren-mq/warren/api/v1alpha1"
)

const (
	// checkCommand as the first argument checks an installation instead of running the manager. `helm test` runs it in a pod.
	checkCommand = "check"
	// leaseName is the Lease of the leader election.
	leaseName = "warren.messaging.warren.dev"
)

// resources are the API resources that this manager needs.
var resources = []string{"brokerconnections", "consumerqueues", "purges", "redrives"}

// checkInstallation waits until the API server serves Warren's resources and a manager renews the Lease of the leader.
func checkInstallation(arguments []string, out io.Writer) error {
	flags := flag.NewFlagSet(checkCommand, flag.ContinueOnError)
	namespace := flags.String("namespace", "warren-system", "The `namespace` of the managers.")
	timeout := flags.Duration("timeout", time.Minute, "How long to wait.")
	if err := flags.Parse(arguments); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("check: find cluster (KUBECONFIG, in-cluster): %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("check: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), *timeout)
	defer cancel()
	checked := check{client: client, namespace: *namespace}
	if err := checked.until(ctx, time.Second); err != nil {
		return fmt.Errorf("check: %w", err)
	}
	_, err = fmt.Fprintf(out, "The API server serves %s, and %s leads.\n", v1alpha1.GroupVersion, checked.leader)
	return err
}

type check struct {
	client    kubernetes.Interface
	namespace string
	// first is the renewal time of the Lease at the first check; nil before that.
	first *metav1.MicroTime
	// leader is set once the check has passed.
	leader string
}

// until repeats the check until it passes. The error is that of the last attempt.
func (c *check) until(ctx context.Context, interval time.Duration) error {
	var failed error
	err := wait.PollUntilContextCancel(ctx, interval, true, func(ctx context.Context) (bool, error) {
		if err := c.once(ctx); err != nil && ctx.Err() == nil {
			failed = err
			return false, nil
		}
		return true, ctx.Err()
	})
	if err != nil && failed != nil {
		return failed
	}
	return err
}

func (c *check) once(ctx context.Context) error {
	served, err := c.client.Discovery().ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	if err != nil {
		return fmt.Errorf("the API server does not serve %s, install the CRDs: %w", v1alpha1.GroupVersion, err)
	}
	names := map[string]bool{}
	for _, resource := range served.APIResources {
		names[resource.Name] = true
	}
	for _, name := range resources {
		if !names[name] {
			return fmt.Errorf("the API server does not serve %s of %s: upgrade the CRDs", name, v1alpha1.GroupVersion)
		}
	}
	lease, err := c.client.CoordinationV1().Leases(c.namespace).Get(ctx, leaseName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("no manager leads: read Lease %q in namespace %q: %w", leaseName, c.namespace, err)
	}
	return c.renewed(lease)
}

// renewed compares with an earlier check, because the clock of the manager's node may differ from the clock here.
func (c *check) renewed(lease *coordinationv1.Lease) error {
	holder, renewed := lease.Spec.HolderIdentity, lease.Spec.RenewTime
	if holder == nil || *holder == "" || renewed == nil {
		return fmt.Errorf("no manager holds Lease %q in namespace %q: see the log of the manager", leaseName, c.namespace)
	}
	if c.first == nil {
		c.first = renewed
	}
	if renewed.Equal(c.first) {
		return fmt.Errorf("manager %s does not renew Lease %q in namespace %q: see the log of the manager", *holder, leaseName, c.namespace)
	}
	c.leader = *holder
	return nil
}
