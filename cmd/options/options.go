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
		"Where metrics are served, such as :8443 for HTTPS or :8080 for HTTP; 0 turns them off.")
	flags.BoolVar(&o.MetricsSecure, "metrics-secure", true,
		"Serve metrics by HTTPS, to those whom the API server lets read them.")
	flags.StringVar(&o.MetricsCertPath, "metrics-cert-path", "",
		"The folder with tls.crt and tls.key that metrics are served with; a certificate made at the start if not given. "+
			"Changed files are taken up.")
	flags.StringVar(&o.DeadLettersBindAddress, "dead-letters-bind-address", "0",
		"Where the dead-letter API is served by HTTPS, such as :8444; 0 turns that off.")
	flags.StringVar(&o.DeadLettersCertPath, "dead-letters-cert-path", "",
		"The folder with tls.crt and tls.key that the dead-letter API is served with; a certificate made at the start if not given. "+
			"Changed files are taken up.")
	flags.BoolVar(&o.DeadLettersFrontProxy, "dead-letters-front-proxy", false,
		"Take the API server's word for who asks for dead letters, where it passes requests on. An APIService needs that.")
	flags.StringVar(&o.DeadLettersRedact, "dead-letters-redact", deadletterapi.DefaultRedacted,
		"A regular expression for the names of headers whose values the dead-letter API does not show, but for exports.")
	flags.StringVar(&o.HealthProbeBindAddress, "health-probe-bind-address", ":8081",
		"Where /healthz and /readyz are served; neither asks a broker.")
	flags.StringVar(&o.PprofBindAddress, "pprof-bind-address", "0",
		"Where Go's profiles are served, such as 127.0.0.1:6060; 0 turns that off. Whoever reaches the address may read them.")
	flags.BoolVar(&o.LeaderElect, "leader-elect", false,
		"Let only one of several managers work at a time.")
	flags.StringVar(&o.LeaderElectionNamespace, "leader-election-namespace", "",
		"Where managers elect their leader; that of the manager's own pod if not given.")
	flags.StringVar(&o.WatchNamespaces, "watch-namespaces", "",
		"The namespaces to work in, separated by commas; all if not given.")
	flags.IntVar(&o.MaxConcurrentReconciles, "max-concurrent-reconciles", 8,
		"How many ConsumerQueues are reconciled at a time.")
	flags.Var(o.maxManagementResponse, "max-management-response",
		"How large an answer of a broker's management API may be that grows with the vhost, as a quantity such as 128Mi. "+
			"What is kept of all vhosts may take six times as much memory.")
	flags.DurationVar(&o.MessageCountsInterval, "message-counts-interval", time.Minute,
		"How often the messages of a vhost's queues are counted, for status.messages and metrics, at most; 0 turns that off.")
	flags.BoolVar(&o.Version, "version", false, "Print the version and end.")
	o.Zap.BindFlags(flags)
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
