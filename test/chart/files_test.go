package chart

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Alerts and dashboards are in the objects as they are in the files, with what Prometheus and Grafana put into braces.
func TestAlertsAndDashboards(t *testing.T) {
	t.Parallel()
	rules := map[string]any{"groups": []any{map[string]any{"name": "warren", "rules": []any{map[string]any{
		"alert": "WarrenBrokerUnreachable", "expr": "up == 0", "for": "5m",
		"annotations": map[string]any{"summary": "{{ $labels.namespace }}/{{ $labels.name }} is {{ $value }}"},
	}}}}}
	dashboard := `{"title": "Warren", "panels": [{"legendFormat": "{{namespace}}"}]}`
	chart := copyOfChart(t)
	write(t, chart, "files/rules/alerts.yaml", yamlOf(t, map[string]any{"kind": "PrometheusRule", "spec": rules}))
	write(t, chart, "files/dashboards/overview.json", dashboard)

	output, err := run(t, "helm", "template", "warren", chart, "--namespace="+system, "--kube-version=1.37.0",
		"--set=metrics.prometheusRule.enabled=true,metrics.prometheusRule.labels.release=monitoring",
		"--set=metrics.dashboards.enabled=true,metrics.dashboards.annotations.grafana_folder=RabbitMQ")
	if err != nil {
		t.Fatal(err)
	}
	found := parse(t, output)
	alerts := found.get(t, "PrometheusRule", "warren-alerts")
	if difference := cmp.Diff(rules, alerts.Object["spec"]); difference != "" {
		t.Errorf("- is in the file, + is in the PrometheusRule:\n%s", difference)
	}
	if alerts.GetLabels()["release"] != "monitoring" {
		t.Errorf("the labels are %v", alerts.GetLabels())
	}
	board := found.get(t, "ConfigMap", "warren-dashboard-overview")
	if got, _, _ := unstructured.NestedString(board.Object, "data", "overview.json"); got != dashboard {
		t.Errorf("the dashboard is %s", got)
	}
	if board.GetLabels()["grafana_dashboard"] != "1" || board.GetAnnotations()["grafana_folder"] != "RabbitMQ" {
		t.Errorf("labels %v, annotations %v", board.GetLabels(), board.GetAnnotations())
	}
}

// copyOfChart is for a test that changes files.
func copyOfChart(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "warren")
	if err := os.CopyFS(folder, os.DirFS(filepath.Join(root, "charts", "warren"))); err != nil {
		t.Fatal(err)
	}
	for _, made := range []string{"files/rules", "files/dashboards"} {
		if err := os.RemoveAll(filepath.Join(folder, made)); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func write(t *testing.T, folder, name, text string) {
	t.Helper()
	path := filepath.Join(folder, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func yamlOf(t *testing.T, value any) string {
	t.Helper()
	content, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
