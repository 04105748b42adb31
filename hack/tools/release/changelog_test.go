package main

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const changelog = `# Changelog

## [Unreleased]

## [1.2.0] - 2026-12-01

First words.

### Added

- A queue that
  takes two lines.
- Another.

### Fixed

- A fault.

## [1.1.0] - 2026-11-01

- Old.

[1.2.0]: https://example.com/1.2.0
`

func TestNotesAreTheSectionOfTheVersion(t *testing.T) {
	got, err := section(changelog, "1.2.0")
	if err != nil {
		t.Fatal(err)
	}
	want := "First words.\n\n### Added\n\n- A queue that\n  takes two lines.\n- Another.\n\n### Fixed\n\n- A fault.\n"
	if difference := cmp.Diff(want, got); difference != "" {
		t.Error(difference)
	}
	if got, err = section(changelog, "1.1.0"); got != "- Old.\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestVersionsWithoutNotesAreRefused(t *testing.T) {
	for version, want := range map[string]string{
		"1.3.0":      "the changelog has no section ## [1.3.0]",
		"1.2":        "the changelog has no section ## [1.2]",
		"Unreleased": "the section ## [Unreleased] of the changelog is empty",
	} {
		if _, err := section(changelog, version); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", version, err, want)
		}
	}
}

func TestChangesOfASection(t *testing.T) {
	text, err := section(changelog, "1.2.0")
	if err != nil {
		t.Fatal(err)
	}
	want := []change{{"added", "A queue that takes two lines."}, {"added", "Another."}, {"fixed", "A fault."}}
	if difference := cmp.Diff(want, changes(text)); difference != "" {
		t.Error(difference)
	}
}

// Artifact Hub refuses a chart with other kinds of changes.
func TestKindsOfChangesInOurChangelog(t *testing.T) {
	text, err := os.ReadFile("../../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{"added": true, "changed": true, "deprecated": true, "removed": true, "fixed": true, "security": true}
	notes, err := section(string(text), "0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range changes(notes) {
		if !kinds[entry.Kind] {
			t.Errorf("%q is under %q", entry.Description, entry.Kind)
		}
	}
}
