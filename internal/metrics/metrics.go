package metrics

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The types of metrics.
const (
	typeCounter   = "counter"
	typeGauge     = "gauge"
	typeHistogram = "histogram"
)

// Definition describes a metric for the reference.
type Definition struct {
	Name   string
	Type   string
	Labels []string
	// Help describes the meaning of a value.
	Help string
}

// Filled by definitions.go.
var (
	definitions []Definition
	collectors  []prometheus.Collector
	described   []*prometheus.Desc
)

// Definitions returns all metrics by name.
func Definitions() []Definition {
	return slices.SortedFunc(slices.Values(definitions), func(a, b Definition) int { return cmp.Compare(a.Name, b.Name) })
}

// Register adds all event metrics to a registry. It may be called more than once.
func Register(registry prometheus.Registerer) error {
	for _, collector := range collectors {
		err := registry.Register(collector)
		if _, known := errors.AsType[prometheus.AlreadyRegisteredError](err); err != nil && !known {
			return err
		}
	}
	return nil
}

// Counter counts events.
type Counter struct{ vector *prometheus.CounterVec }

// Inc adds 1 to the series with these label values, which are in the order of Definition.Labels.
func (c *Counter) Inc(labels ...string) { c.vector.WithLabelValues(labels...).Inc() }

// Add counts several events.
func (c *Counter) Add(count float64, labels ...string) {
	c.vector.WithLabelValues(labels...).Add(count)
}

// Start creates a series with the value zero, because rate ignores the event that creates a series.
func (c *Counter) Start(labels ...string) { c.vector.WithLabelValues(labels...) }

// With returns the counter with these labels.
func (c *Counter) With(labels ...string) prometheus.Counter {
	return c.vector.WithLabelValues(labels...)
}

// ForgetConsumerQueue removes the series of a ConsumerQueue that does not exist any more.
func ForgetConsumerQueue(namespace, name string) {
	for _, counter := range []*Counter{RedriveMessages, PurgeMessages} {
		counter.vector.DeletePartialMatch(prometheus.Labels{"namespace": namespace, "consumerqueue": name})
	}
}

// Histogram is a histogram of durations in seconds.
type Histogram struct{ vector *prometheus.HistogramVec }

// Observe records a duration.
func (h *Histogram) Observe(took time.Duration, labels ...string) {
	h.vector.WithLabelValues(labels...).Observe(took.Seconds())
}

// State is a metric whose value is read at scrape time.
type State struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

// Emit accepts a value.
type Emit func(prometheus.Metric)

// Emit passes the value of the series with these label values to emit.
func (s *State) Emit(emit Emit, value float64, labels ...string) {
	emit(prometheus.MustNewConstMetric(s.desc, s.kind, value, labels...))
}

// EmitTime emits a time in seconds since 1970, and nothing for the zero time.
func (s *State) EmitTime(emit Emit, at time.Time, labels ...string) {
	if !at.IsZero() {
		s.Emit(emit, float64(at.UnixMilli())/1000, labels...)
	}
}

// Source reads the current values at each scrape, and passes them to Emit.
type Source func(Emit)

type collector []Source

// NewCollector returns the collector of all State metrics. Register it once per registry.
func NewCollector(sources ...Source) prometheus.Collector { return collector(sources) }

func (collector) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range described {
		to <- desc
	}
}

func (c collector) Collect(to chan<- prometheus.Metric) {
	for _, source := range c {
		source(func(metric prometheus.Metric) { to <- metric })
	}
}

func define(kind, name, help string, labels []string) {
	definitions = append(definitions, Definition{Name: name, Type: kind, Labels: labels, Help: help})
}

func counter(name, help string, labels ...string) *Counter {
	define(typeCounter, name, help, labels)
	vector := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	collectors = append(collectors, vector)
	return &Counter{vector}
}

func histogram(name, help string, buckets []float64, labels ...string) *Histogram {
	define(typeHistogram, name, help, labels)
	vector := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	collectors = append(collectors, vector)
	return &Histogram{vector}
}

func sizes(name, help string, buckets []float64) prometheus.Histogram {
	define(typeHistogram, name, help, nil)
	histogram := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	collectors = append(collectors, histogram)
	return histogram
}

// info defines a metric whose value is always 1 and whose labels have the information.
func info(name, help string, labels ...string) *prometheus.GaugeVec {
	define(typeGauge, name, help, labels)
	vector := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	collectors = append(collectors, vector)
	return vector
}

func gauge(name, help string, labels ...string) *State {
	return state(typeGauge, prometheus.GaugeValue, name, help, labels)
}

// total defines a counter whose value another package counts.
func total(name, help string, labels ...string) *State {
	return state(typeCounter, prometheus.CounterValue, name, help, labels)
}

func state(kind string, value prometheus.ValueType, name, help string, labels []string) *State {
	define(kind, name, help, labels)
	desc := prometheus.NewDesc(name, help, labels, nil)
	described = append(described, desc)
	return &State{desc, value}
}
