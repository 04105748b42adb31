package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warren-mq/warren/cmd/options"
	"github.com/warren-mq/warren/internal/controller"
	"github.com/warren-mq/warren/internal/lease"
)

// Without leader election a manager leads at all times. With it, a manager that has never acquired the Lease does not lead.
func TestWhoLeads(t *testing.T) {
	t.Parallel()
	if holdsLease(&options.Options{}, &lease.Clock{}) != nil {
		t.Error("a manager without leader election asks for the Lease")
	}
	leads := holdsLease(&options.Options{LeaderElect: true}, &lease.Clock{})
	if leads == nil || leads() {
		t.Error("a manager without the Lease leads")
	}
}

// controller-runtime would generate a certificate, and scrapers that verify it would fail.
func TestNoMetricsCertificate(t *testing.T) {
	t.Parallel()
	_, err := metricsOptions(&options.Options{MetricsSecure: true, MetricsCertPath: t.TempDir()})
	if err == nil || !strings.HasPrefix(err.Error(), "load the certificate of --metrics-cert-path: ") {
		t.Errorf("got %v", err)
	}
}

// The dead-letter API serves the namespaces that the manager watches; all of them if the list is empty.
func TestNamespacesOfTheDeadLetterAPI(t *testing.T) {
	t.Parallel()
	for watched, want := range map[string][]string{"": nil, "shop,till": {"shop", "till"}} {
		given := &options.Options{WatchNamespaces: watched}
		caching, err := controller.CacheOptions(given.WatchNamespaces)
		if err != nil {
			t.Fatal(err)
		}
		got := deadLetterOptions(given, caching).Namespaces
		slices.Sort(got)
		if difference := cmp.Diff(want, got); difference != "" {
			t.Errorf("--watch-namespaces=%s (-want +got):\n%s", watched, difference)
		}
	}
}
