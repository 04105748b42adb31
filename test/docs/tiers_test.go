package docs

import (
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// hack/test.sh runs each package whose tests loop over the brokers on every RabbitMQ.
func TestPackagesThatRunOnEveryBroker(t *testing.T) {
	t.Parallel()
	_, extended, _ := strings.Cut(read(t, "hack/test.sh"), "\nextended() {")
	var run []string
	for _, words := range regexp.MustCompile(`\./([\w/]*)(?:\{([\w/,]+)\})?(\.\.\.)?`).FindAllStringSubmatch(extended, -1) {
		for name := range strings.SplitSeq(words[2], ",") {
			run = append(run, words[1]+name+words[3])
		}
	}
	const loop = `(brokers\.All(TLS)?|rabbittest\.Each)\(`
	command := exec.CommandContext(t.Context(), "git", "grep", "--name-only", "-E", loop, "--", "*_test.go")
	command.Dir = root
	output, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	files := strings.Fields(string(output))
	if len(files) < 20 || len(run) < 10 {
		t.Fatalf("found %v, and packages %v", files, run)
	}
	for _, file := range files {
		folder := path.Dir(file)
		isRun := slices.ContainsFunc(run, func(name string) bool {
			below, all := strings.CutSuffix(name, "/...")
			return name == folder || all && strings.HasPrefix(folder+"/", below+"/")
		})
		if !isRun && folder != "test/crashpoints" { // `make crashpoints` runs these
			t.Errorf("hack/test.sh does not run %s on every RabbitMQ, see %s", folder, file)
		}
	}
}
