// The manager runs Warren's controllers.
package main

import (
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // every way to log in to a cluster
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/buildinfo"
	"github.com/warren-mq/warren/internal/controller"
	"github.com/warren-mq/warren/internal/metrics"
	"github.com/warren-mq/warren/internal/rabbit/management"
)

type flags struct {
	metricsAddress string
	metricsSecure  bool
	metricsCert    string
	probeAddress   string
	leaderElect    bool
	leaderSpace    string
	namespaces     string
	maxConcurrent  int
	maxResponse    quantity
	countsInterval time.Duration
	version        bool
	zap            zap.Options
}

func main() {
	given := parseFlags()
	if given.version {
		fmt.Println(buildinfo.Get())
		return
	}
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&given.zap)))
	if err := run(given); err != nil {
		ctrl.Log.Error(err, "Stopped")
		os.Exit(1)
	}
}

func parseFlags() flags {
	given := flags{maxResponse: quantity{resource.NewQuantity(management.DefaultResponseLimit, resource.BinarySI)}}
	flag.StringVar(&given.metricsAddress, "metrics-bind-address", "0",
		"Where metrics are served, such as :8443 for HTTPS or :8080 for HTTP; 0 turns them off.")
	flag.BoolVar(&given.metricsSecure, "metrics-secure", true,
		"Serve metrics by HTTPS, to those whom the API server lets read them.")
	flag.StringVar(&given.metricsCert, "metrics-cert-path", "",
		"The folder with tls.crt and tls.key that metrics are served with; a certificate made at the start if not given. "+
			"Changed files are taken up.")
	flag.StringVar(&given.probeAddress, "health-probe-bind-address", ":8081", "Where /healthz and /readyz are served.")
	flag.BoolVar(&given.leaderElect, "leader-elect", false,
		"Let only one of several managers work at a time.")
	flag.StringVar(&given.leaderSpace, "leader-election-namespace", "",
		"Where managers elect their leader; that of the manager's own pod if not given.")
	flag.StringVar(&given.namespaces, "watch-namespaces", "",
		"The namespaces to work in, separated by commas; all if not given.")
	flag.IntVar(&given.maxConcurrent, "max-concurrent-reconciles", 8, "How many ConsumerQueues are reconciled at a time.")
	flag.Var(given.maxResponse, "max-management-response",
		"How large an answer of a broker's management API may be that grows with the vhost, as a quantity such as 128Mi. "+
			"What is kept of all vhosts may take six times as much memory.")
	flag.DurationVar(&given.countsInterval, "message-counts-interval", time.Minute,
		"How often the messages of a vhost's queues are counted for metrics, at most; 0 turns that off.")
	flag.BoolVar(&given.version, "version", false, "Print the version and end.")
	given.zap.BindFlags(flag.CommandLine)
	flag.Parse()
	return given
}

// quantity is a flag that takes a number of bytes.
type quantity struct{ *resource.Quantity }

// Set refuses what is too little for the smallest vhost.
func (q quantity) Set(text string) error {
	parsed, err := resource.ParseQuantity(text)
	if err != nil {
		return err
	}
	if parsed.Value() < smallestResponse || parsed.Value() > largestResponse {
		return errors.New("must be between 1Mi and 1Ti")
	}
	*q.Quantity = parsed
	return nil
}

// String is asked of a zero value, too.
func (q quantity) String() string {
	if q.Quantity == nil {
		return ""
	}
	return q.Quantity.String()
}

const (
	smallestResponse = 1 << 20
	largestResponse  = 1 << 40
)

func run(given flags) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("make scheme: %w", err)
		}
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("find cluster (--kubeconfig, KUBECONFIG, in-cluster): %w", err)
	}
	config.QPS = -1 // the API server's priority and fairness knows better when to slow down
	serving, err := metricsOptions(given)
	if err != nil {
		return err
	}
	caching, err := controller.CacheOptions(given.namespaces)
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		Cache:                         caching,
		Metrics:                       serving,
		HealthProbeBindAddress:        given.probeAddress,
		LeaderElection:                given.leaderElect,
		LeaderElectionNamespace:       given.leaderSpace,
		LeaderElectionID:              "warren.messaging.warren.dev",
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return fmt.Errorf("make manager: %w", err)
	}
	build := buildinfo.Get()
	metrics.BuildInfo.Set(build.Version, build.Revision, build.GoVersion)
	ctx := ctrl.SetupSignalHandler()
	if err := controller.Setup(ctx, mgr, controller.Options{
		MaxConcurrentReconciles: given.maxConcurrent, MaxManagementResponse: given.maxResponse.Value(),
		MessageCountsInterval: given.countsInterval,
	}); err != nil {
		return err
	}
	// Neither check asks a broker: the operator is well while brokers are not.
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("add liveness check: %w", err)
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return fmt.Errorf("add readiness check: %w", err)
	}
	return mgr.Start(ctx)
}

func metricsOptions(given flags) (metricsserver.Options, error) {
	options := metricsserver.Options{
		BindAddress:   given.metricsAddress,
		SecureServing: given.metricsSecure,
		CertDir:       given.metricsCert,
		// HTTP/2 has had denials of service that a metrics endpoint need not risk (CVE-2023-44487).
		TLSOpts: []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }},
	}
	if given.metricsSecure {
		options.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	if given.metricsCert != "" {
		// Where files are missing, controller-runtime would make a certificate of its own, and say nothing.
		_, err := tls.LoadX509KeyPair(filepath.Join(given.metricsCert, "tls.crt"), filepath.Join(given.metricsCert, "tls.key"))
		if err != nil {
			return options, fmt.Errorf("load the certificate of --metrics-cert-path: %w", err)
		}
	}
	return options, nil
}
