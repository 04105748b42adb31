// Command dashboard draws the queries of the Grafana dashboard from data that the dashboard's test has saved:
//
//	WARREN_DASHBOARD_DATA=$PWD/data.json go test ./test/monitoring
//	go run ./hack/dashboard data.json >docs/images/dashboard.svg
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: dashboard FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var answers []answer
	if err := json.Unmarshal(text, &answers); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	_, err = os.Stdout.WriteString(draw(panelsOf(answers)))
	return err
}
