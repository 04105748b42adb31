package monitoring

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/common/model"

	. "github.com/warren-mq/warren/test/testenv"
)

// panel is a panel of the dashboard.
type panel struct {
	Title   string   `json:"title"`
	Type    string   `json:"type"`
	Targets []target `json:"targets"`
}

type target struct {
	Expr   string `json:"expr"`
	Legend string `json:"legendFormat"`
}

// panels are those of the dashboard, but for the titles of its rows.
func panels() []panel {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(Checkout, "config", "grafana", "warren.json"))
	Expect(err).NotTo(HaveOccurred())
	var dashboard struct{ Panels []panel }
	Expect(json.Unmarshal(text, &dashboard)).To(Succeed())
	return slices.DeleteFunc(dashboard.Panels, func(p panel) bool { return len(p.Targets) == 0 })
}

// expression is what Grafana makes of a query, for all namespaces.
func (t target) expression() string {
	return strings.NewReplacer("$namespace", ".*", "$__rate_interval", "15s").Replace(t.Expr)
}

// hasNumber says whether a series has a value that can be shown.
func hasNumber(series *model.SampleStream) bool {
	return slices.ContainsFunc(series.Values, func(pair model.SamplePair) bool { return !math.IsNaN(float64(pair.Value)) })
}

// drawn is a query with what Prometheus answered.
type drawn struct {
	Panel  string       `json:"panel"`
	Legend string       `json:"legend"`
	Series model.Matrix `json:"series"`
}

// save keeps the answers to the queries in the file that WARREN_DASHBOARD_DATA names; hack/dashboard draws them.
func save(answers []drawn) {
	GinkgoHelper()
	if file := os.Getenv("WARREN_DASHBOARD_DATA"); file != "" {
		text, err := json.Marshal(answers)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(file, text, 0o600)).To(Succeed())
	}
}
