package main

import (
	"crypto/x509"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const tag = "example.com/warren:v1.2.3"

// write builds an image with this test binary as the manager.
func write(t *testing.T, flags ...string) (output string) {
	t.Helper()
	output = t.TempDir()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	arguments := append([]string{
		"build", "-output", output, "-tag", tag, "-version", "v1.2.3", "-revision", "06967e3c", "-epoch", "1700000000",
	}, flags...)
	if err := run(append(arguments, "linux/arm64="+binary, "linux/amd64="+binary)); err != nil {
		t.Fatal(err)
	}
	return output
}

func TestImageOfEachPlatformReachesARegistry(t *testing.T) {
	output := write(t)
	server := httptest.NewServer(registry.New())
	t.Cleanup(server.Close)
	pushed := strings.TrimPrefix(server.URL, "http://") + "/warren:v1.2.3"
	if err := run([]string{"push", filepath.Join(output, "image"), pushed}); err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(parsed(t, pushed))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, entry := range manifest.Manifests {
		platforms = append(platforms, entry.Platform.String())
	}
	if got := strings.Join(platforms, " "); got != "linux/amd64 linux/arm64" {
		t.Errorf("the index has the platforms %s", got)
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if written := read(t, output, "image.digest"); strings.TrimSpace(string(written)) != digest.String() {
		t.Errorf("image.digest is %s, but the digest in the registry is %s", written, digest)
	}
}

func TestImageRunsTheManagerAsNonRoot(t *testing.T) {
	config := configFile(t, write(t), "arm64")
	if config.Architecture != "arm64" || config.OS != "linux" {
		t.Errorf("%s/%s", config.OS, config.Architecture)
	}
	if got := config.Config; got.User != "65532:65532" || strings.Join(got.Entrypoint, " ") != "/manager" {
		t.Errorf("%+v", got)
	}
	for label, want := range map[string]string{
		"org.opencontainers.image.version":  "v1.2.3",
		"org.opencontainers.image.revision": "06967e3c",
		"org.opencontainers.image.created":  "2023-11-14T22:13:20Z",
		"org.opencontainers.image.licenses": "Apache-2.0",
	} {
		if got := config.Config.Labels[label]; got != want {
			t.Errorf("label %s is %q, want %q", label, got, want)
		}
	}
}

func TestDockerfileHasTheSameLabels(t *testing.T) {
	dockerfile := string(read(t, "../../..", "Dockerfile"))
	labels := source{version: "$VERSION", revision: "$REVISION"}.labels()
	delete(labels, "org.opencontainers.image.created") // Docker sets its own creation time
	for label, value := range labels {
		if line := label + `="` + value + `"`; !strings.Contains(dockerfile, line) {
			t.Errorf("the Dockerfile has no %s", line)
		}
	}
}

func TestSameCommitIsTheSameImage(t *testing.T) {
	first, second := write(t), write(t)
	for _, file := range []string{"image.digest", "image-amd64.tar", "image-arm64.tar", "sbom-amd64.cdx.json"} {
		if string(read(t, first, file)) != string(read(t, second, file)) {
			t.Errorf("%s differs", file)
		}
	}
	if other := write(t, "-revision", "f6305e1e"); string(read(t, other, "image.digest")) == string(read(t, first, "image.digest")) {
		t.Error("another commit is the same image")
	}
}

func TestImageTrustsPublicAuthorities(t *testing.T) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(certificates()) {
		t.Fatal("no certificates")
	}
	for _, authority := range []string{"ISRG Root X1", "DigiCert Global Root G2", "Amazon Root CA 1"} {
		//nolint:staticcheck // Subjects is complete for a pool that is not the system's
		if !strings.Contains(string(joined(pool.Subjects())), authority) {
			t.Errorf("%s is missing", authority)
		}
	}
}

func TestSBOMListsModulesGoAndCertificates(t *testing.T) {
	var list cdx.BOM
	if err := json.Unmarshal(read(t, write(t), "sbom-amd64.cdx.json"), &list); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, component := range *list.Components {
		found[component.Name] = component.Version
	}
	if found["stdlib"] != strings.TrimPrefix(runtime.Version(), "go") {
		t.Errorf("stdlib is %q", found["stdlib"])
	}
	for _, module := range []string{"github.com/google/go-containerregistry", roots} {
		if found[module] == "" {
			t.Errorf("%s is missing", module)
		}
	}
	if list.Metadata.Component.Version != "v1.2.3" {
		t.Errorf("%+v", list.Metadata.Component)
	}
}

func TestWrappedBinaryIsTheEntrypoint(t *testing.T) {
	folder := t.TempDir()
	binary := filepath.Join(folder, "probe")
	if err := os.WriteFile(binary, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"wrap", "example.com/probe:1", binary, filepath.Join(folder, "image-probe.tar")}); err != nil {
		t.Fatal(err)
	}
	config := configFile(t, folder, "probe")
	if got := config.Config; strings.Join(got.Entrypoint, " ") != "/probe" || got.User != "65532:65532" {
		t.Errorf("%+v", got)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	for _, test := range []struct {
		arguments []string
		want      string
	}{
		{nil, "usage: image build"},
		{[]string{"build", "-tag", tag, "linux/amd64"}, `argument "linux/amd64" is not of the form PLATFORM=BINARY`},
		{[]string{"build", "-tag", "UPPER", "linux/amd64=x"}, "-tag: "},
		{[]string{"build", "-tag", tag, "linux/amd64=/does/not/exist"}, "/does/not/exist: no such file"},
		{[]string{"push", t.TempDir(), tag}, "make image writes it"},
	} {
		if err := run(test.arguments); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v, want %s", test.arguments, err, test.want)
		}
	}
}

func configFile(t *testing.T, output, architecture string) *v1.ConfigFile {
	t.Helper()
	image, err := tarball.ImageFromPath(filepath.Join(output, "image-"+architecture+".tar"), nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func parsed(t *testing.T, text string) name.Reference {
	t.Helper()
	reference, err := name.ParseReference(text)
	if err != nil {
		t.Fatal(err)
	}
	return reference
}

func read(t *testing.T, folder, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(folder, file))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func joined(parts [][]byte) (all []byte) {
	for _, part := range parts {
		all = append(all, part...)
	}
	return all
}
