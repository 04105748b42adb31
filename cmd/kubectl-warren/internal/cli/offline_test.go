package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The output of kubectl warren without a cluster, and its exit code.
func TestOffline(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args  string
		stdin string // a file of testdata
		code  int
		fold  string // the indentation at which an object of the JSON output takes one line in the golden file
	}{
		"plan":              {args: "plan -f testdata/orders.yaml --broker-version 4.3", code: exitDiffers},
		"plan-310":          {args: "plan -f testdata/orders.yaml --broker-version 3.10.8", code: exitDiffers},
		"plan-wide":         {args: "plan -f testdata/orders.yaml --broker-version 4.3 -o wide", code: exitDiffers},
		"plan-json":         {args: "plan -f testdata/two.yaml --broker-version 4.3 -o json", code: exitDiffers, fold: "      "},
		"plan-yaml":         {args: "plan -f testdata/orders.yaml --broker-version 4.3 -o yaml", code: exitDiffers},
		"plan-stdin":        {args: "plan -f - --broker-version 4.3", stdin: "two.yaml", code: exitDiffers},
		"plan-typo":         {args: "plan -f testdata/typo.yaml --broker-version 4.3", code: exitError},
		"plan-no-file":      {args: "plan -f testdata/none.yaml --broker-version 4.3", code: exitError},
		"plan-version":      {args: "plan -f testdata/orders.yaml --broker-version four", code: exitError},
		"plan-nothing":      {args: "plan", code: exitError},
		"plan-both":         {args: "plan orders -f testdata/orders.yaml", code: exitError},
		"plan-cluster":      {args: "plan orders --broker-version 4.3", code: exitError},
		"plan-format":       {args: "plan -f testdata/orders.yaml --broker-version 4.3 -o xml", code: exitError},
		"export":            {args: "export -f testdata/two.yaml --broker-version 4.3", fold: "    "},
		"export-vhost":      {args: "export -f testdata/orders.yaml --broker-version 3.10 --vhost shop", fold: "    "},
		"export-version":    {args: "export -f testdata/orders.yaml", code: exitError},
		"export-nothing":    {args: "export", code: exitError},
		"contract":          {args: "contract -f testdata/orders.yaml --broker-version 4.3 --vhost shop"},
		"contract-named":    {args: "contract by-reject -f - --broker-version 4.3", stdin: "two.yaml"},
		"contract-which":    {args: "contract -f testdata/two.yaml --broker-version 4.3", code: exitError},
		"contract-name":     {args: "contract refunds -f testdata/two.yaml --broker-version 4.3", code: exitError},
		"contract-version":  {args: "contract -f testdata/orders.yaml", code: exitError},
		"contract-old":      {args: "contract -f testdata/orders.yaml --broker-version 3.9", code: exitError},
		"contract-nothing":  {args: "contract", code: exitError},
		"contract-fresh":    {args: "contract -f testdata/orders.yaml --broker-version 4.3 --check testdata/contract-fresh.json"},
		"contract-stale":    {args: "contract -f testdata/orders.yaml --broker-version 4.3 --check testdata/contract-stale.json", code: exitDiffers},
		"contract-other":    {args: "contract -f testdata/orders.yaml --broker-version 4.3 --check testdata/definitions.json", code: exitError},
		"contract-no-file":  {args: "contract -f testdata/orders.yaml --broker-version 4.3 --check testdata/none.json", code: exitError},
		"import":            {args: "import testdata/definitions.json --connection shop"},
		"import-correct":    {args: "import - --drift-policy Correct --namespace shop --broker-version 4.0", stdin: "definitions.json"},
		"import-vhosts":     {args: "import testdata/two-vhosts.json --broker-version 4.3", code: exitError},
		"import-vhost":      {args: "import testdata/two-vhosts.json --broker-version 4.3 --vhost z", code: exitError},
		"import-version":    {args: "import testdata/two-vhosts.json --vhost x", code: exitError},
		"import-policy":     {args: "import testdata/definitions.json --drift-policy Ignore", code: exitError},
		"import-no-file":    {args: "import testdata/none.json", code: exitError},
		"import-other-file": {args: "import testdata/orders.yaml", code: exitError},
		"completion":        {args: "completion --for-kubectl"},
		"completion-none":   {args: "completion", code: exitError},
		"completion-shell":  {args: "completion tcsh", code: exitError},
		"redrive-to":        {args: "dlq redrive orders --to elsewhere", code: exitError},
		"purge-limit":       {args: "dlq purge orders --died-reason Parked", code: exitError},
		"purge-no-limit":    {args: "dlq purge orders --expected-at-most 0 --yes", code: exitError},
		"purge-below-one":   {args: "dlq purge orders --expected-at-most -5", code: exitError},
		"purge-too-many":    {args: "dlq purge orders --expected-at-most 3000000000", code: exitError},
		"purge-to":          {args: "dlq purge orders --to main", code: exitError},
		"purge-nothing":     {args: "dlq purge --dry-run", code: exitError},
		"purge-format":      {args: "dlq purge orders --dry-run -o wide", code: exitError},
		"purge-manifest":    {args: "dlq purge orders --namespace shop --expected-at-most 12 --rate 5 --header x-tenant=acme --dry-run=client"},
		"redrive-manifest":  {args: "dlq redrive orders --namespace shop --expression size<5 --to retry --dry-run=client -o json"},
		"redrive-jsonpath":  {args: "dlq redrive orders --namespace shop --reason \x1b[2J --dry-run=client -o jsonpath={.spec.reason}"},
		"redrive-template":  {args: "dlq redrive orders --dry-run=client -o jsonpath={.spec", code: exitError},
		"redrive-dry-run":   {args: "dlq redrive orders --dry-run=maybe", code: exitError},
		"rate-what":         {args: "dlq rate orders-1 fast", code: exitError},
		"rate-nothing":      {args: "dlq rate orders-1", code: exitError},
		"jobs-both":         {args: "dlq jobs orders -A", code: exitError},
		"follow-what":       {args: "dlq follow consumerqueue/orders", code: exitError},
		"cancel-what":       {args: "dlq cancel purge/", code: exitError},
		"dlq":               {args: "dlq look orders", code: exitError},
		"show-nothing":      {args: "dlq show", code: exitError},
		"peek-reason":       {args: "dlq peek orders --died-reason boredom", code: exitError},
		"peek-limit":        {args: "dlq peek orders --limit many", code: exitError},
		"peek-format":       {args: "dlq peek orders -o wide", code: exitError},
		"peek-unreachable":  {args: "dlq peek orders", code: exitError},
		"dlq-export-file":   {args: "dlq export orders --file testdata/orders.yaml", code: exitError},
		"ls-name":           {args: "dlq ls orders -A", code: exitError},
		"flag":              {args: "tree orders --colour", code: exitError},
		"command":           {args: "stats", code: exitError},
		"tree-nothing":      {args: "tree", code: exitError},
		"status-both":       {args: "status orders -A", code: exitError},
		"status-watch":      {args: "status -w -o json", code: exitError},
		"unreachable":       {args: "diff orders", code: exitError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stdin := ""
			if test.stdin != "" {
				content, err := os.ReadFile(filepath.Join("testdata", test.stdin))
				if err != nil {
					t.Fatal(err)
				}
				stdin = string(content)
			}
			got := run(t, stdin, strings.Fields(test.args)...)
			if got.code != test.code {
				t.Errorf("exit code is %d, want %d", got.code, test.code)
			}
			if test.fold != "" {
				got.out = folded(t, got.out, test.fold)
			}
			golden(t, name, got.out+"--- stderr\n"+got.errOut)
		})
	}
}

// folded checks that JSON is indented, and joins the lines of each object that begins at an indentation.
func folded(t *testing.T, text, indent string) string {
	t.Helper()
	indented := &bytes.Buffer{}
	if err := json.Indent(indented, []byte(text), "", "  "); err != nil || indented.String() != text {
		t.Errorf("not indented JSON: %v\n%s", err, text)
	}
	text = regexp.MustCompile(`\n`+indent+` +`).ReplaceAllString(text, " ")
	return regexp.MustCompile(`\n`+indent+`}`).ReplaceAllString(text, " }")
}
