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

// panels returns the panels of the dashboard, except row titles.
func panels() []panel {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(Checkout, "config", "grafana", "warren.json"))
	Expect(err).NotTo(HaveOccurred())
	var dashboard struct{ Panels []panel }
	Expect(json.Unmarshal(text, &dashboard)).To(Succeed())
	return slices.DeleteFunc(dashboard.Panels, func(p panel) bool { return len(p.Targets) == 0 })
}

// expression returns a query with Grafana's variables replaced, for all namespaces.
func (t target) expression() string {
	return strings.NewReplacer("$namespace", ".*", "$__rate_interval", "15s").Replace(t.Expr)
}

// hasNumber reports whether a series has a value that can be drawn.
func hasNumber(series *model.SampleStream) bool {
	return slices.ContainsFunc(series.Values, func(pair model.SamplePair) bool { return !math.IsNaN(float64(pair.Value)) })
}

// drawn is a query with Prometheus's response.
type drawn struct {
	Panel  string       `json:"panel"`
	Legend string       `json:"legend"`
	Series model.Matrix `json:"series"`
}

// save writes the responses to the file WARREN_DASHBOARD_DATA, from which hack/dashboard draws them.
func save(answers []drawn) {
	GinkgoHelper()
	if file := os.Getenv("WARREN_DASHBOARD_DATA"); file != "" {
		text, err := json.Marshal(answers)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(file, text, 0o600)).To(Succeed())
	}
}
