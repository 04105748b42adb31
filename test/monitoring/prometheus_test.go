package monitoring

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/util/intstr"

	. "github.com/warren-mq/warren/test/testenv"
)

// prometheus is a running Prometheus.
type prometheus struct {
	promv1.API

	started time.Time
}

// hasty makes every rule fire as soon as its expression is true, and shortens the time ranges in expressions to seconds.
func hasty(spec monitoringv1.PrometheusRuleSpec) monitoringv1.PrometheusRuleSpec {
	seconds := strings.NewReplacer("86400", "1", "[1d]", "[2s]", "[1h] offset 1d", "[5s] offset 1s")
	for g := range spec.Groups {
		for r := range spec.Groups[g].Rules {
			rule := &spec.Groups[g].Rules[r]
			rule.For, rule.Expr = nil, intstr.FromString(seconds.Replace(rule.Expr.String()))
		}
	}
	return spec
}

// startPrometheus scrapes a manager and evaluates the rules, each second. It uses the settings of the ServiceMonitor, and the labels
// that the Prometheus operator adds to a target.
func startPrometheus(target, tokenFile string) *prometheus {
	GinkgoHelper()
	folder, address := GinkgoT().TempDir(), FreeAddress()
	endpoint := manifest[monitoringv1.ServiceMonitor]("servicemonitor.yaml").Spec.Endpoints[0]
	config := write(folder, "prometheus.yaml", map[string]any{
		"global":     map[string]any{"scrape_interval": "1s", "evaluation_interval": "1s"},
		"rule_files": []string{write(folder, "rules.yaml", hasty(rules()))},
		"scrape_configs": []any{map[string]any{
			"job_name": "warren", "scheme": endpoint.Scheme, "metrics_path": endpoint.Path, "honor_labels": endpoint.HonorLabels,
			"authorization": map[string]any{"credentials_file": tokenFile},
			"tls_config":    map[string]any{"insecure_skip_verify": *endpoint.TLSConfig.InsecureSkipVerify},
			"static_configs": []any{map[string]any{
				"targets": []string{target},
				"labels":  map[string]string{"namespace": "warren-system", "pod": "warren-controller-manager-0", "container": "manager"},
			}},
		}},
	})
	command := exec.Command(filepath.Join(programs, "prometheus"), "--config.file="+config, "--web.listen-address="+address,
		"--storage.tsdb.path="+filepath.Join(folder, "data"), "--log.level=warn")
	command.Stdout, command.Stderr = GinkgoWriter, GinkgoWriter
	Expect(command.Start()).To(Succeed())
	DeferCleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	client, err := api.NewClient(api.Config{Address: "http://" + address})
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() error {
		response, err := http.Get("http://" + address + "/-/ready")
		if err == nil {
			err = response.Body.Close()
			if response.StatusCode != http.StatusOK {
				err = fmt.Errorf("answered %s", response.Status)
			}
		}
		return err
	}).Should(Succeed())
	return &prometheus{API: promv1.NewAPI(client), started: time.Now()}
}

// eventually waits until an expression has a value that matches.
func (p *prometheus) eventually(expression string, matcher types.GomegaMatcher) {
	GinkgoHelper()
	Eventually(p.query).WithArguments(expression).Should(matcher, "%s", expression)
}

// query evaluates an expression now. The result is delayed: the manager counts after it acts, and Prometheus scrapes each second.
func (p *prometheus) query(expression string) model.Vector {
	GinkgoHelper()
	value, _, err := p.Query(ctx(), expression, time.Now())
	Expect(err).NotTo(HaveOccurred(), expression)
	return value.(model.Vector)
}

// queryAll evaluates an expression for each second since the start.
func (p *prometheus) queryAll(expression string) model.Matrix {
	GinkgoHelper()
	value, _, err := p.QueryRange(ctx(), expression, promv1.Range{Start: p.started, End: time.Now(), Step: time.Second})
	Expect(err).NotTo(HaveOccurred(), expression)
	return value.(model.Matrix)
}

// firing returns the firing alerts as "Name namespace/name", without the namespace if an alert has none.
func (p *prometheus) firing() (list []string) {
	GinkgoHelper()
	found, err := p.Alerts(ctx())
	Expect(err).NotTo(HaveOccurred())
	for _, alert := range found.Alerts {
		list = append(list, textOf(alert.Labels))
	}
	return list
}

// fired returns the alerts that fire or have fired in this test. Some end by themselves, for example for a deletion that waits for a minute.
func (p *prometheus) fired() (list []string) {
	GinkgoHelper()
	for _, alert := range p.query(`max_over_time(ALERTS{alertstate="firing"}[1h])`) {
		list = append(list, textOf(model.LabelSet(alert.Metric)))
	}
	return list
}

func textOf(alert model.LabelSet) string {
	text := string(alert["alertname"])
	if alert["namespace"] != "" {
		text += fmt.Sprintf(" %s/%s", alert["namespace"], alert["name"])
	}
	return text
}
