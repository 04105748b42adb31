package chart

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Alerts and dashboard are the files in config/, with escaped braces.
func TestAlertsAndDashboards(t *testing.T) {
	t.Parallel()
	output, err := run(t, "helm", "template", "warren", "charts/warren", "--namespace="+system,
		"--kube-version=1.37.0",
		"--set=metrics.prometheusRule.enabled=true,metrics.prometheusRule.labels.release=monitoring",
		"--set=metrics.dashboards.enabled=true,metrics.dashboards.annotations.grafana_folder=RabbitMQ")
	if err != nil {
		t.Fatal(err)
	}
	found := parse(t, output)
	alerts := found.get(t, "PrometheusRule", "warren-alerts")
	if difference := cmp.Diff(objectIn(t, "config/prometheus/rules.yaml")["spec"], alerts.Object["spec"]); difference != "" {
		t.Errorf("- is in config/prometheus, + is in the PrometheusRule:\n%s", difference)
	}
	if alerts.GetLabels()["release"] != "monitoring" {
		t.Errorf("the labels are %v", alerts.GetLabels())
	}
	board := found.get(t, "ConfigMap", "warren-dashboard-warren")
	text, _, _ := unstructured.NestedString(board.Object, "data", "warren.json")
	var got map[string]any
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if difference := cmp.Diff(objectIn(t, "config/grafana/warren.json"), got); difference != "" {
		t.Errorf("- is in config/grafana, + is in the ConfigMap:\n%s", difference)
	}
	if board.GetLabels()["grafana_dashboard"] != "1" || board.GetAnnotations()["grafana_folder"] != "RabbitMQ" {
		t.Errorf("labels %v, annotations %v", board.GetLabels(), board.GetAnnotations())
	}
}

// The leader of another release does not silence the alert if Prometheus scrapes by the chart's ServiceMonitor, which adds the label namespace.
func TestAlertsWithServiceMonitorWatchTheirRelease(t *testing.T) {
	t.Parallel()
	found := render(t, "helm", "--set=metrics.prometheusRule.enabled=true", "--set=metrics.serviceMonitor.enabled=true")
	got := at(t, found, "PrometheusRule", "warren-alerts", `.spec.groups[0].rules[?(@.alert=="WarrenOperatorWithoutLeader")].expr`)
	if want := `absent(leader_election_master_status{namespace="warren-system", name="warren.messaging.warren.dev"} == 1)`; got != want {
		t.Errorf("the expression is %s, want %s", got, want)
	}
}

// objectIn reads a YAML or JSON file.
func objectIn(t *testing.T, path string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	object := map[string]any{}
	if err := yaml.Unmarshal(text, &object); err != nil {
		t.Fatal(err)
	}
	return object
}
