package main

import (
	"math"
	"regexp"

	"github.com/prometheus/common/model"
)

// answer is Prometheus's response to one query of a panel.
type answer struct {
	Panel  string       `json:"panel"`
	Legend string       `json:"legend"`
	Series model.Matrix `json:"series"`
}

// panel is a panel of the dashboard with its named lines.
type panel struct {
	title string
	lines []line
}

type line struct {
	name   string
	points []point
}

type point struct{ at, value float64 }

// panelsOf groups the answers by panel and keeps their order.
func panelsOf(answers []answer) []*panel {
	var panels []*panel
	byTitle := map[string]*panel{}
	for _, a := range answers {
		p := byTitle[a.Panel]
		if p == nil {
			p = &panel{title: a.Panel}
			byTitle[a.Panel], panels = p, append(panels, p)
		}
		for _, series := range a.Series {
			p.lines = append(p.lines, line{nameOf(a.Legend, series.Metric), pointsOf(series)})
		}
	}
	return panels
}

var placeholder = regexp.MustCompile(`\{\{(\w+)\}\}`)

// nameOf replaces the labels in a legend with their values.
func nameOf(legend string, metric model.Metric) string {
	return placeholder.ReplaceAllStringFunc(legend, func(found string) string {
		return string(metric[model.LabelName(placeholder.FindStringSubmatch(found)[1])])
	})
}

func pointsOf(series *model.SampleStream) []point {
	var points []point
	for _, pair := range series.Values {
		if value := float64(pair.Value); !math.IsNaN(value) && !math.IsInf(value, 0) {
			points = append(points, point{float64(pair.Timestamp.Unix()), value})
		}
	}
	return points
}
