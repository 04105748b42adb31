// Command manager runs Warren's controllers.
package main

import (
	"crypto/tls"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // all authentication plugins
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/cmd/metricsaccess"
	"github.com/warren-mq/warren/cmd/options"
	"github.com/warren-mq/warren/internal/buildinfo"
	"github.com/warren-mq/warren/internal/controller"
	"github.com/warren-mq/warren/internal/deadletterapi"
	"github.com/warren-mq/warren/internal/lease"
	"github.com/warren-mq/warren/internal/metrics"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == checkCommand {
		if err := checkInstallation(os.Args[2:], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	given := options.Options{}
	given.Bind(flag.CommandLine)
	flag.Parse()
	if given.Version {
		fmt.Println(buildinfo.Get())
		return
	}
	ctrl.SetLogger(newLogger(&given.Zap))
	setGCPercent()
	if err := run(&given); err != nil {
		ctrl.Log.Error(err, "The manager has stopped")
		os.Exit(1)
	}
}

// gcPercent is the growth of the heap at which the garbage collector runs; Go's default is 100. The live heap is a few KiB per
// ConsumerQueue, and marking it is fast: see ADR 0029.
const gcPercent = 30

// setGCPercent does not override GOGC.
func setGCPercent() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

func run(given *options.Options) error {
	caching, err := controller.CacheOptions(given.WatchNamespaces)
	if err != nil {
		return err
	}
	clock := &lease.Clock{}
	mgr, err := newManager(given, caching, clock)
	if err != nil {
		return err
	}
	build := buildinfo.Get()
	metrics.BuildInfo.WithLabelValues(build.Version, build.Revision, build.GoVersion).Set(1)
	ctx := ctrl.SetupSignalHandler()
	finder, users, err := controller.Setup(ctx, mgr, controller.Options{
		MaxConcurrentReconciles: given.MaxConcurrentReconciles, MaxManagementResponse: given.MaxManagementResponse(),
		MessageCountsInterval: given.MessageCountsInterval, HoldsLease: holdsLease(given, clock),
	})
	if err != nil {
		return err
	}
	if err := deadletterapi.Setup(mgr, finder, users, deadLetterOptions(given, caching)); err != nil {
		return fmt.Errorf("set up the dead-letter API: %w", err)
	}
	// The checks do not depend on brokers: the manager is healthy while brokers are not.
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("add liveness check: %w", err)
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("add readiness check: %w", err)
	}
	return mgr.Start(ctx)
}

// holdsLease returns a function that reports whether this manager leads; nil without leader election.
func holdsLease(given *options.Options, clock *lease.Clock) func() bool {
	if !given.LeaderElect {
		return nil
	}
	return clock.Held
}

// newManager returns a manager without controllers. clock observes its leader election.
func newManager(given *options.Options, caching cache.Options, clock *lease.Clock) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("make scheme: %w", err)
		}
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("find cluster (--kubeconfig, KUBECONFIG, in-cluster): %w", err)
	}
	config.QPS = -1 // the API server's priority and fairness limits requests better
	serving, err := metricsOptions(given)
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		Cache:                         caching,
		Metrics:                       serving,
		HealthProbeBindAddress:        given.HealthProbeBindAddress,
		PprofBindAddress:              given.PprofBindAddress,
		LeaderElection:                given.LeaderElect,
		LeaderElectionConfig:          clock.Observe(config),
		LeaderElectionNamespace:       given.LeaderElectionNamespace,
		LeaderElectionID:              leaseName,
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return nil, fmt.Errorf("make manager: %w", err)
	}
	return mgr, nil
}

// deadLetterOptions returns the options of the dead-letter API. The Deployment passes the pod's name.
func deadLetterOptions(given *options.Options, caching cache.Options) deadletterapi.Options {
	return deadletterapi.Options{
		BindAddress: given.DeadLettersBindAddress, CertPath: given.DeadLettersCertPath, FrontProxy: given.DeadLettersFrontProxy,
		Redact:     given.DeadLettersRedact,
		Namespaces: slices.Collect(maps.Keys(caching.DefaultNamespaces)),
		Pod:        deadletterapi.Pod{Namespace: os.Getenv("POD_NAMESPACE"), Name: os.Getenv("POD_NAME")},
	}
}

func metricsOptions(given *options.Options) (metricsserver.Options, error) {
	serving := metricsserver.Options{
		BindAddress:   given.MetricsBindAddress,
		SecureServing: given.MetricsSecure,
		CertDir:       given.MetricsCertPath,
		// HTTP/2 is disabled, because its denial-of-service risks are not worth it for metrics (CVE-2023-44487).
		TLSOpts: []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }},
	}
	if given.MetricsSecure {
		serving.FilterProvider = metricsaccess.Filter
	}
	if given.MetricsCertPath != "" {
		// If files are missing, controller-runtime would silently generate a certificate.
		_, err := tls.LoadX509KeyPair(filepath.Join(given.MetricsCertPath, "tls.crt"), filepath.Join(given.MetricsCertPath, "tls.key"))
		if err != nil {
			return serving, fmt.Errorf("load the certificate of --metrics-cert-path: %w", err)
		}
	}
	return serving, nil
}
