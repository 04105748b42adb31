package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// clone returns a checkout of this commit without tags, with a Git user for tags and commits.
func clone(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "warren")
	git(t, ".", "clone", "--quiet", "--no-tags", "../../..", folder)
	return folder
}

func git(t *testing.T, folder string, arguments ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=test", "-c", "user.email=test@example.com"}, arguments...)...)
	command.Dir = folder
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", arguments, err, output)
	}
}

func modules(t *testing.T, checkout, version string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "hack/modules.sh", version)
	command.Dir = checkout
	output, err := command.CombinedOutput()
	return string(output), err
}

func TestModulesOfTheFirstReleaseCanBeUsedOnceTheyAreTagged(t *testing.T) {
	output, err := modules(t, clone(t), "v0.1.0")
	if err != nil || !strings.Contains(output, "tag consumer/v0.1.0, consumer/otelconsumer/v0.1.0 and v0.1.0, in this order") {
		t.Errorf("%v: %s", err, output)
	}
}

func TestTagsInAnotherOrderAreRefused(t *testing.T) {
	change := func(t *testing.T, checkout string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(checkout, "consumer", "doc.go"), []byte("package consumer\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		git(t, checkout, "commit", "--quiet", "--all", "--message=change")
	}
	// tagManager tags v0.1.0, which has the date in the changelog.
	tagManager := func(t *testing.T, checkout, date string) {
		t.Helper()
		changelog := filepath.Join(checkout, "CHANGELOG.md")
		text, err := os.ReadFile(changelog)
		if err != nil {
			t.Fatal(err)
		}
		text = regexp.MustCompile(`(?m)^## \[0\.1\.0\] - .*$`).ReplaceAll(text, []byte("## [0.1.0] - "+date))
		if err := os.WriteFile(changelog, text, 0o600); err != nil {
			t.Fatal(err)
		}
		git(t, checkout, "commit", "--quiet", "--all", "--allow-empty", "--message=date")
		git(t, checkout, "tag", "v0.1.0")
	}
	for name, test := range map[string]struct {
		version string
		prepare func(t *testing.T, checkout string)
		want    string
	}{
		"a version without a date": {
			version: "v0.1.0",
			prepare: func(t *testing.T, checkout string) { tagManager(t, checkout, "unreleased") },
			want:    "v0.1.0 is tagged, and CHANGELOG.md has no date for it: set the date before you tag it",
		},
		"the manager before the library": {
			version: "v0.1.0",
			prepare: func(t *testing.T, checkout string) { tagManager(t, checkout, "2026-12-01") },
			want:    "v0.1.0 is tagged, and consumer/v0.1.0, which it requires, is not: tag consumer/ first",
		},
		"the library after the manager": {
			version: "v0.1.0",
			prepare: func(t *testing.T, checkout string) {
				tagManager(t, checkout, "2026-12-01")
				change(t, checkout)
				git(t, checkout, "tag", "consumer/v0.1.0")
			},
			want: "consumer/v0.1.0 is not an ancestor of v0.1.0: tag consumer/ at an earlier commit",
		},
		"the manager before the module for OpenTelemetry": {
			version: "v0.1.0",
			prepare: func(t *testing.T, checkout string) {
				git(t, checkout, "tag", "consumer/v0.1.0")
				tagManager(t, checkout, "2026-12-01")
			},
			want: "v0.1.0 is tagged, and consumer/otelconsumer/v0.1.0 is not: tag consumer/otelconsumer/ first",
		},
		"a library that has changed since its tag": {
			version: "v0.2.0",
			prepare: func(t *testing.T, checkout string) {
				git(t, checkout, "tag", "consumer/v0.1.0")
				change(t, checkout)
			},
			want: "consumer/ has changed since consumer/v0.1.0: require consumer v0.2.0 in each go.mod, and tag consumer/v0.2.0 first",
		},
		"a library without a tag": {
			version: "v0.2.0",
			prepare: func(*testing.T, string) {},
			want:    "go.mod requires github.com/warren-mq/warren/consumer v0.1.0, which is not tagged: require v0.2.0",
		},
		"no version": {version: "0.1", prepare: func(*testing.T, string) {}, want: "name a version such as v1.2.3, not '0.1'"},
	} {
		t.Run(name, func(t *testing.T) {
			checkout := clone(t)
			test.prepare(t, checkout)
			output, err := modules(t, checkout, test.version)
			if err == nil || !strings.Contains(output, test.want) {
				t.Errorf("%v: %s, want %s", err, output, test.want)
			}
		})
	}
}
