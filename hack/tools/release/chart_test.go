package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
)

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// packaged returns a directory with the packaged chart of a version whose image has the digest above.
func packaged(t *testing.T, registry string) string {
	t.Helper()
	output := t.TempDir()
	for file, content := range map[string]string{"image.digest": digest + "\n", "CHANGELOG.md": strings.ReplaceAll(changelog, "1.2.0", "1.2.3")} {
		if err := os.WriteFile(filepath.Join(output, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := run([]string{
		"chart", "-output", output, "-version", "v1.2.3", "-epoch", "1700000000", "-registry", registry,
		"-changelog", filepath.Join(output, "CHANGELOG.md"), "-chart", "../../../charts/warren",
	}); err != nil {
		t.Fatal(err)
	}
	return output
}

func TestChartRunsTheImageOfTheRelease(t *testing.T) {
	packed, err := loader.Load(filepath.Join(packaged(t, "registry.example.com/team/mirror"), "warren-1.2.3.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	image := packed.Values["image"].(map[string]any)
	if image["registry"] != "registry.example.com" || image["repository"] != "team/mirror/warren" || image["digest"] != digest {
		t.Errorf("the image is %v", image)
	}
	about := packed.Metadata
	if about.Version != "1.2.3" || about.AppVersion != "v1.2.3" || about.Annotations["artifacthub.io/prerelease"] != "false" {
		t.Errorf("%+v", about)
	}
	if got := about.Annotations["artifacthub.io/images"]; !strings.Contains(got, "image: registry.example.com/team/mirror/warren@"+digest) {
		t.Errorf("images are %s", got)
	}
	if got := about.Annotations["artifacthub.io/changes"]; !strings.Contains(got, "description: A fault.\n  kind: fixed") {
		t.Errorf("changes are %s", got)
	}
}

func TestChartIsTheSameEachTime(t *testing.T) {
	one, two := packaged(t, "ghcr.io/warren-mq"), packaged(t, "ghcr.io/warren-mq")
	for _, file := range []string{"warren-1.2.3.tgz", "chart.digest"} {
		if string(content(t, one, file)) != string(content(t, two, file)) {
			t.Errorf("%s differs", file)
		}
	}
}

// Helm finds the archive in the layout by its media types.
func TestChartLayoutHoldsTheArchive(t *testing.T) {
	output := packaged(t, "ghcr.io/warren-mq")
	index, err := layout.ImageIndexFromPath(filepath.Join(output, "chart"))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 || manifest.Manifests[0].Digest.String() != strings.TrimSpace(string(content(t, output, "chart.digest"))) {
		t.Fatalf("%+v", manifest.Manifests)
	}
	chart, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(chart, validate.Fast); err != nil {
		t.Error(err)
	}
	about, err := chart.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if got := string(about.Config.MediaType); got != "application/vnd.cncf.helm.config.v1+json" {
		t.Errorf("the configuration is %s", got)
	}
	sum := sha256.Sum256(content(t, output, "warren-1.2.3.tgz"))
	if got := about.Layers[0].Digest.Hex; got != hex.EncodeToString(sum[:]) {
		t.Errorf("the layer is %s, the archive %x", got, sum)
	}
}

func TestProvenanceNamesFilesImageAndChart(t *testing.T) {
	output := packaged(t, "ghcr.io/warren-mq")
	if err := os.WriteFile(filepath.Join(output, "checksums.txt"), []byte("aa11  install.yaml\nbb22  warren-1.2.3.tgz\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"provenance", "-output", output, "-version", "v1.2.3", "-revision", "06967e3c", "-epoch", "1700000000"}); err != nil {
		t.Fatal(err)
	}
	made := statement{}
	if err := json.Unmarshal(content(t, output, "provenance.intoto.json"), &made); err != nil {
		t.Fatal(err)
	}
	var subjects []string
	for _, subject := range made.Subject {
		subjects = append(subjects, subject.Name+" "+subject.Digest["sha256"])
	}
	want := []string{
		"install.yaml aa11", "warren-1.2.3.tgz bb22", "ghcr.io/warren-mq/warren " + strings.TrimPrefix(digest, "sha256:"),
		"ghcr.io/warren-mq/charts/warren " + strings.TrimPrefix(strings.TrimSpace(string(content(t, output, "chart.digest"))), "sha256:"),
	}
	if got := strings.Join(subjects, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("subjects are\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if got := made.Predicate.BuildDefinition.ResolvedDependencies[0]; got.Digest["gitCommit"] != "06967e3c" {
		t.Errorf("%+v", got)
	}
}

func content(t *testing.T, folder, file string) []byte {
	t.Helper()
	read, err := os.ReadFile(filepath.Join(folder, file))
	if err != nil {
		t.Fatal(err)
	}
	return read
}
