package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

const source = "https://github.com/warren-mq/warren"

// statement is an in-toto statement (https://in-toto.io/Statement/v1) with the predicate of SLSA (https://slsa.dev/provenance/v1).
type statement struct {
	Type          string    `json:"_type"`
	Subject       []subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     predicate `json:"predicate"`
}

type subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

type predicate struct {
	BuildDefinition struct {
		BuildType            string            `json:"buildType"`
		ExternalParameters   map[string]string `json:"externalParameters"`
		InternalParameters   map[string]string `json:"internalParameters"`
		ResolvedDependencies []dependency      `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
	} `json:"runDetails"`
}

type dependency struct {
	URI    string            `json:"uri"`
	Digest map[string]string `json:"digest,omitempty"`
}

// describeBuild writes provenance.intoto.json for the files in checksums.txt, the image and the chart. It has no timestamp,
// because the same commit produces the same files.
func (r release) describeBuild(builder string) error {
	subjects, err := r.subjects()
	if err != nil {
		return err
	}
	made := statement{Type: "https://in-toto.io/Statement/v1", Subject: subjects, PredicateType: "https://slsa.dev/provenance/v1"}
	build := &made.Predicate.BuildDefinition
	build.BuildType = source + "/blob/main/docs/releasing.md"
	build.ExternalParameters = map[string]string{"source": "git+" + source + "@refs/tags/" + r.version, "version": r.version, "registry": r.registry}
	build.InternalParameters = map[string]string{"sourceDateEpoch": fmt.Sprint(r.epoch)}
	build.ResolvedDependencies = []dependency{
		{URI: "git+" + source + "@refs/tags/" + r.version, Digest: map[string]string{"gitCommit": r.revision}},
		{URI: "pkg:golang/std@" + strings.TrimPrefix(runtime.Version(), "go")},
	}
	made.Predicate.RunDetails.Builder.ID = builder
	text, err := json.MarshalIndent(made, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.output, "provenance.intoto.json"), append(text, '\n'), 0o644)
}

// subjects returns the files in the order of checksums.txt, then the image and the chart.
func (r release) subjects() ([]subject, error) {
	file, err := os.Open(filepath.Join(r.output, "checksums.txt"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	var list []subject
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		sum, name, found := strings.Cut(lines.Text(), "  ")
		if !found {
			return nil, fmt.Errorf("checksums.txt: line %q has no name", lines.Text())
		}
		list = append(list, subject{name, map[string]string{"sha256": sum}})
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	for _, artefact := range []struct{ name, file string }{{"/warren", "image.digest"}, {"/charts/warren", "chart.digest"}} {
		digest, err := os.ReadFile(filepath.Join(r.output, artefact.file))
		if err != nil {
			return nil, err
		}
		sum := strings.TrimPrefix(strings.TrimSpace(string(digest)), "sha256:")
		list = append(list, subject{r.registry + artefact.name, map[string]string{"sha256": sum}})
	}
	return list, nil
}
