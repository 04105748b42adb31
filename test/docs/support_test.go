package docs

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// SUPPORT.md lists the versions on which the nightly tests and the release workflow run.
func TestTestedVersions(t *testing.T) {
	t.Parallel()
	minors := func(text string) []string { return regexp.MustCompile(`\b\d+\.\d+\b`).FindAllString(text, -1) }
	documented := map[string][]string{}
	for kind, heading := range map[string]string{"RabbitMQ": "### RabbitMQ", "Kubernetes": "### Kubernetes"} {
		for _, row := range table(t, read(t, "SUPPORT.md"), heading) {
			if strings.HasPrefix(row[1], "tested") {
				documented[kind] = append(documented[kind], minors(row[0])...)
			}
		}
	}
	brokers := regexp.MustCompile(`(?m)^VERSIONS=\((.*)\)`).FindStringSubmatch(read(t, "hack/brokers.sh"))[1]
	sameSet(t, "tested versions of RabbitMQ", documented["RabbitMQ"], minors(brokers))

	matrix := regexp.MustCompile(`(?m)^ +version: \[(.*)\]`).FindStringSubmatch(read(t, ".github/workflows/release.yaml"))[1]
	newest := regexp.MustCompile(`k8s\.io/kubernetes v(1\.\d+)`).FindStringSubmatch(read(t, "hack/kubernetes/go.mod"))[1]
	var released []string
	for version := range strings.FieldsFuncSeq(matrix, func(r rune) bool { return strings.ContainsRune(`", `, r) }) {
		released = append(released, version[:strings.LastIndex(version, ".")])
	}
	sameSet(t, "tested versions of Kubernetes", documented["Kubernetes"], append(released, newest))
}

// Until CHANGELOG.md has the date of the first release, each page that takes a file of a release says that there is none. Afterwards no
// page says so.
func TestPagesSayWhetherAReleaseIsPublished(t *testing.T) {
	t.Parallel()
	published := !strings.Contains(read(t, "CHANGELOG.md"), "\n## [0.1.0] - unreleased\n")
	uses := regexp.MustCompile(`go get github\.com/warren-mq/|oci://ghcr\.io/warren-mq/|warren-mq/warren/releases/(latest/)?download/|warren-mq/warren/\S+\?ref=v`)
	for _, page := range append(pages(t), "charts/warren/README.md.gotmpl") {
		text := read(t, page)
		if page == "docs/releasing.md" {
			continue
		}
		switch says := strings.Contains(text, "**Not yet published"); {
		case published && says:
			t.Errorf("%s says that Warren is not yet published", page)
		case !published && !says && uses.MatchString(text):
			t.Errorf("%s does not say that Warren is not yet published", page)
		}
	}
}

// Scripts take programs such as Prometheus from Debian. The runners have Ubuntu, whose apt has neither a mirror of Debian nor its keys.
func TestJobsThatTestHaveAMirrorOfDebian(t *testing.T) {
	t.Parallel()
	tests := regexp.MustCompile(`^(\.ci/run|make (test|e2e-).*)$`)
	checked := 0
	for name, content := range workflows(t) {
		var workflow struct {
			Jobs map[string]struct {
				Env   map[string]string
				Steps []struct{ Run string }
			}
		}
		if err := yaml.Unmarshal([]byte(content), &workflow); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for job, jobSpec := range workflow.Jobs {
			hasKeys := false
			for _, step := range jobSpec.Steps {
				hasKeys = hasKeys || strings.Contains(step.Run, "install -qq --yes debian-archive-keyring")
				if !tests.MatchString(step.Run) {
					continue
				}
				checked++
				if jobSpec.Env["WARREN_DEBIAN_MIRROR"] == "" || !hasKeys {
					t.Errorf("%s: the job %s runs %s without WARREN_DEBIAN_MIRROR or debian-archive-keyring", name, job, step.Run)
				}
			}
		}
	}
	if checked < 4 {
		t.Errorf("found only %d jobs that test", checked)
	}
}

// macOS has bash 3.2. Scripts for Linux alone may use more.
func TestScriptsRunInTheBashOfMacOS(t *testing.T) {
	t.Parallel()
	newer := regexp.MustCompile(
		`\b(mapfile|readarray|coproc)\b|\b(declare|local|typeset) -\w*[Ag]|\bwait -n\b|\[\[ -v |&>>|\|&|\$\{\w+(,|\^|@[A-Za-z]\})`)
	scripts := 0
	for _, file := range listFiles(t) {
		if (!strings.HasPrefix(file, "hack/") || !strings.HasSuffix(file, ".sh")) && file != ".ci/run" || file == "hack/cluster/node.sh" {
			continue
		}
		scripts++
		if found := newer.FindString(read(t, file)); found != "" {
			t.Errorf("%s uses %q, which needs bash 4", file, found)
		}
	}
	if scripts < 30 {
		t.Errorf("found only %d scripts", scripts)
	}
}

// workflows returns the content of the workflows, by the names of their files.
func workflows(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*"))
	if err != nil || len(files) < 6 {
		t.Fatalf("%v, %v", files, err)
	}
	found := map[string]string{}
	for _, file := range files {
		found[filepath.Base(file)] = read(t, ".github/workflows/"+filepath.Base(file))
	}
	return found
}

// Actions are pinned to commits, because their owners can move tags. The tag is in a comment.
func TestActionsArePinned(t *testing.T) {
	t.Parallel()
	pins := map[string][]string{}
	for name, content := range workflows(t) {
		for _, use := range regexp.MustCompile(`(?m)uses: (.*)$`).FindAllStringSubmatch(content, -1) {
			pin := regexp.MustCompile(`^([\w-]+/[\w-]+)(?:/[\w-]+)?@([0-9a-f]{40} # v\d+\.\d+\.\d+)$`).FindStringSubmatch(use[1])
			if pin == nil {
				t.Errorf("%s: %s is not pinned to a commit, with its tag in a comment", name, use[1])
				continue
			}
			if known := pins[pin[1]]; !slices.Contains(known, pin[2]) {
				pins[pin[1]] = append(known, pin[2])
			}
		}
	}
	for action, versions := range pins {
		if len(versions) > 1 {
			t.Errorf("%s is used in several versions: %v", action, versions)
		}
	}
}
