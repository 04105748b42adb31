// Package options holds the flags of the manager. docs/reference/flags.md is generated from them.
package options

import (
	"errors"
	"flag"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/warren-mq/warren/internal/deadletterapi"
	"github.com/warren-mq/warren/internal/rabbit/management"
)

// Options are the values of the flags.
type Options struct {
	MetricsBindAddress      string
	MetricsSecure           bool
	MetricsCertPath         string
	DeadLettersBindAddress  string
	DeadLettersCertPath     string
	DeadLettersFrontProxy   bool
	DeadLettersRedact       string
	HealthProbeBindAddress  string
	PprofBindAddress        string
	LeaderElect             bool
	LeaderElectionNamespace string
	WatchNamespaces         string
	MaxConcurrentReconciles int
	MessageCountsInterval   time.Duration
	Version                 bool
	Zap                     zap.Options

	maxManagementResponse quantity
}

// MaxManagementResponse is a number of bytes.
func (o *Options) MaxManagementResponse() int64 { return o.maxManagementResponse.Value() }

// Bind defines the flags, with their defaults.
func (o *Options) Bind(flags *flag.FlagSet) {
	o.maxManagementResponse = quantity{resource.NewQuantity(management.DefaultResponseLimit, resource.BinarySI)}
	flags.StringVar(&o.MetricsBindAddress, "metrics-bind-address", "0",
		"The listen address of the metrics, such as :8443; 0 disables them.")
	flags.BoolVar(&o.MetricsSecure, "metrics-secure", true,
		"Serve metrics over HTTPS, to users that the API server authorizes. If false, the manager serves them over HTTP to every client.")
	flags.StringVar(&o.MetricsCertPath, "metrics-cert-path", "",
		"The folder with tls.crt and tls.key for metrics. The manager reloads changed files. Without it, the manager generates a "+
			"certificate at its start.")
	flags.StringVar(&o.DeadLettersBindAddress, "dead-letters-bind-address", "0",
		"The listen address of the dead-letter API (HTTPS), such as :8444; 0 disables it.")
	flags.StringVar(&o.DeadLettersCertPath, "dead-letters-cert-path", "",
		"The folder with tls.crt and tls.key for the dead-letter API. The manager reloads changed files. Without it, the manager "+
			"generates a certificate at its start.")
	flags.BoolVar(&o.DeadLettersFrontProxy, "dead-letters-front-proxy", false,
		"Trust the user headers of the aggregation layer for the dead-letter API. An APIService requires it.")
	flags.StringVar(&o.DeadLettersRedact, "dead-letters-redact", deadletterapi.DefaultRedacted,
		"A regular expression for the names of message headers whose values the dead-letter API hides, except in exports.")
	flags.StringVar(&o.HealthProbeBindAddress, "health-probe-bind-address", ":8081",
		"The listen address of /healthz and /readyz, which do not depend on brokers.")
	flags.StringVar(&o.PprofBindAddress, "pprof-bind-address", "0",
		"The listen address of Go's profiles, such as 127.0.0.1:6060; 0 disables them. There is no access control.")
	flags.BoolVar(&o.LeaderElect, "leader-elect", false,
		"Elect a leader, so that only one of several managers works at a time.")
	flags.StringVar(&o.LeaderElectionNamespace, "leader-election-namespace", "",
		"The namespace of the leader election; that of the manager's pod if not given.")
	flags.StringVar(&o.WatchNamespaces, "watch-namespaces", "",
		"The namespaces to work in, separated by commas; all if not given.")
	flags.IntVar(&o.MaxConcurrentReconciles, "max-concurrent-reconciles", 8,
		"The maximum number of ConsumerQueues that are reconciled at a time.")
	flags.Var(o.maxManagementResponse, "max-management-response",
		"The size limit of a management API response that grows with the vhost, as a quantity such as 128Mi. "+
			"The snapshots of all vhosts together may use six times as much memory.")
	flags.DurationVar(&o.MessageCountsInterval, "message-counts-interval", time.Minute,
		"The minimum interval between counts of the messages in a vhost's queues, for status.messages and metrics; 0 disables counts.")
	flags.BoolVar(&o.Version, "version", false, "Print the version and exit.")
	o.Zap.BindFlags(flags)
}

// quantity is a flag that takes a number of bytes.
type quantity struct{ *resource.Quantity }

// Set refuses values that are too small for the smallest vhost.
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

// String also accepts the zero value, which package flag uses.
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
