package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// sample is one series of a metric, with its value or the count of a histogram.
type sample struct {
	name   string
	labels map[string]string
	value  float64
}

// parseMetrics parses the named metrics in Prometheus' text format.
func parseMetrics(text []byte, names ...string) ([]sample, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("parse metrics: %w", err)
	}
	var samples []sample
	for _, name := range names {
		for _, metric := range families[name].GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			value := metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
			samples = append(samples, sample{name, labels, value})
		}
	}
	return samples, nil
}

// counts are numbers of requests by kind.
type counts map[string]float64

// since returns the difference to earlier counts, without kinds that did not change.
func (t counts) since(before counts) counts {
	added := counts{}
	for what, count := range t {
		if more := count - before[what]; more != 0 {
			added[what] = more
		}
	}
	return added
}

func (t counts) total() float64 {
	sum := 0.0
	for _, count := range t {
		sum += count
	}
	return sum
}

// String lists the counts, the highest first.
func (t counts) String() string {
	kinds := slices.SortedFunc(maps.Keys(t), func(a, b string) int { return cmp.Or(cmp.Compare(t[b], t[a]), strings.Compare(a, b)) })
	parts := make([]string, 0, len(kinds))
	for _, what := range kinds {
		parts = append(parts, fmt.Sprintf("%s %.0f", what, t[what]))
	}
	return strings.Join(parts, ", ")
}

// requestsMetric is the manager's count of its requests to brokers.
const requestsMetric = "warren_broker_request_duration_seconds"

// brokerRequests returns the manager's requests over one protocol by operation. Failed requests are counted separately.
func brokerRequests(samples []sample, protocol string) counts {
	requests := counts{}
	for _, s := range samples {
		if s.name != requestsMetric || s.labels["protocol"] != protocol {
			continue
		}
		what := s.labels["operation"]
		if s.labels["result"] != "success" {
			what += " (" + s.labels["result"] + ")"
		}
		requests[what] += s.value
	}
	return requests
}

// apiWrites returns the requests to the API server that write Warren's resources or Events, by verb and resource, including
// failed ones.
func apiWrites(samples []sample) counts {
	writes := counts{}
	for _, s := range samples {
		isWarrens := s.labels["group"] == "messaging.warren.dev"
		isEvent := s.labels["resource"] == "events"
		verb := s.labels["verb"]
		if !isWarrens && !isEvent || !slices.Contains([]string{"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"}, verb) {
			continue
		}
		what := verb + " " + s.labels["resource"]
		if s.labels["subresource"] != "" {
			what += "/" + s.labels["subresource"]
		}
		writes[what] += s.value
	}
	return writes
}

// withoutEvents separates writes of Events from other writes.
func (t counts) withoutEvents() (others, events counts) {
	others, events = counts{}, counts{}
	for what, count := range t {
		if strings.HasSuffix(what, " events") {
			events[what] = count
		} else {
			others[what] = count
		}
	}
	return others, events
}

// reconciledMetric is the manager's number of reconciliations.
const reconciledMetric = "warren_reconciliations_total"

// reconciliations returns how often ConsumerQueues were reconciled, and how often their objects matched the spec.
func reconciliations(samples []sample) (all, inSync float64) {
	for _, s := range samples {
		if s.name != reconciledMetric || s.labels["kind"] != "ConsumerQueue" {
			continue
		}
		all += s.value
		if s.labels["result"] == "done" && s.labels["reason"] == "InSync" {
			inSync += s.value
		}
	}
	return all, inSync
}
