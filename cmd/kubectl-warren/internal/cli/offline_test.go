package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
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
		"plan":             {args: "plan -f testdata/orders.yaml --broker-version 4.3", code: exitDiffers},
		"plan-310":         {args: "plan -f testdata/orders.yaml --broker-version 3.10.8", code: exitDiffers},
		"plan-wide":        {args: "plan -f testdata/orders.yaml --broker-version 4.3 -o wide", code: exitDiffers},
		"plan-json":        {args: "plan -f testdata/two.yaml --broker-version 4.3 -o json", code: exitDiffers, fold: "      "},
		"plan-stdin":       {args: "plan -f - --broker-version 4.3", stdin: "two.yaml", code: exitDiffers},
		"export":           {args: "export -f testdata/two.yaml --broker-version 4.3", fold: "    "},
		"export-vhost":     {args: "export -f testdata/orders.yaml --broker-version 3.10 --vhost shop", fold: "    "},
		"contract-named":   {args: "contract by-reject -f - --broker-version 4.3", stdin: "two.yaml"},
		"import":           {args: "import testdata/definitions.json --connection shop"},
		"import-correct":   {args: "import - --drift-policy Correct --namespace shop --broker-version 4.0", stdin: "definitions.json"},
		"completion":       {args: "completion --for-kubectl"},
		"purge-manifest":   {args: "dlq purge orders --namespace shop --expected-at-most 12 --rate 5 --header x-tenant=acme --dry-run=client"},
		"redrive-manifest": {args: "dlq redrive orders --namespace shop --expression size<5 --to retry --dry-run=client -o json"},
		"redrive-jsonpath": {args: "dlq redrive orders --namespace shop --reason \x1b[2J --dry-run=client -o jsonpath={.spec.reason}"},
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

// The output of -o yaml has the values of -o json.
func TestYAML(t *testing.T) {
	t.Parallel()
	plan := []string{"plan", "-f", "testdata/orders.yaml", "--broker-version", "4.3", "-o"}
	text := run(t, "", append(plan, "yaml")...).out
	var want, got any
	if err := json.Unmarshal([]byte(run(t, "", append(plan, "json")...).out), &want); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if difference := cmp.Diff(want, got); difference != "" || !strings.HasPrefix(text, "- basis: Nothing\n") {
		t.Errorf("(-json +yaml):\n%s\n%s", difference, text)
	}
}

// The contract of a spec, and --check, which compares a file with it.
func TestContract(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join("testdata", "contract.json"))
	if err != nil {
		t.Fatal(err)
	}
	current := string(content)
	stale := filepath.Join(t.TempDir(), "stale.json")
	if err := os.WriteFile(stale, []byte(strings.Replace(current, `"maxAttempts": 3`, `"maxAttempts": 6`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	for flags, want := range map[string]result{
		"":                               {out: current},
		"--vhost shop":                   {out: strings.Replace(current, `"virtualHost": "/"`, `"virtualHost": "shop"`, 1)},
		"--check testdata/contract.json": {},
		"--check " + stale: {
			errOut: fmt.Sprintf("error: file %q is not the current contract; replace it with:\n%s", stale, current),
			code:   exitDiffers,
		},
	} {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			got := run(t, "", strings.Fields("contract -f testdata/orders.yaml --broker-version 4.3 "+flags)...)
			if difference := cmp.Diff(want, got, cmp.AllowUnexported(result{})); difference != "" {
				t.Errorf("(-want +got):\n%s", difference)
			}
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
