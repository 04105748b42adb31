package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// made returns the files that the command writes for platforms whose binaries are scripts, by file name.
func made(t *testing.T, platforms ...string) (folder string, files map[string]string) {
	t.Helper()
	folder = t.TempDir()
	license := filepath.Join(folder, "LICENSE")
	binary := filepath.Join(folder, "binary")
	for path, content := range map[string]string{license: "the terms", binary: "#!/bin/sh\necho this is the plugin\n"} {
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	arguments := []string{"-output", folder, "-version", "v1.2.3", "-epoch", "1700000000", "-license", license}
	for _, platform := range platforms {
		arguments = append(arguments, platform+"="+binary)
	}
	if err := run(arguments); err != nil {
		t.Fatal(err)
	}
	files = map[string]string{}
	written, err := filepath.Glob(filepath.Join(folder, "kubectl-warren*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range written {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(path)] = string(content)
	}
	return folder, files
}

var five = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64"}

func TestTheSameInputGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	_, one := made(t, five...)
	_, two := made(t, five...)
	if difference := cmp.Diff(one, two); difference != "" {
		t.Errorf("files (-once +twice):\n%s", difference)
	}
}

func TestManifest(t *testing.T) {
	t.Parallel()
	_, files := made(t, five...)
	manifest := struct {
		Metadata struct{ Name string }
		Spec     struct {
			Version   string
			Platforms []struct {
				Selector         struct{ MatchLabels map[string]string }
				URI, SHA256, Bin string
			}
		}
	}{}
	if err := yaml.Unmarshal([]byte(files["kubectl-warren.yaml"]), &manifest); err != nil {
		t.Fatal(err)
	}
	if manifest.Metadata.Name != "warren" || manifest.Spec.Version != "v1.2.3" {
		t.Errorf("the manifest is of %s %s", manifest.Metadata.Name, manifest.Spec.Version)
	}
	var uris []string
	for _, platform := range manifest.Spec.Platforms {
		uris = append(uris, platform.URI+" "+platform.Bin)
		if len(platform.SHA256) != 64 {
			t.Errorf("%s has the checksum %q", platform.URI, platform.SHA256)
		}
	}
	const release = "https://github.com/warren-mq/warren/releases/download/v1.2.3/kubectl-warren_"
	want := []string{
		release + "linux_amd64.tar.gz kubectl-warren", release + "linux_arm64.tar.gz kubectl-warren",
		release + "darwin_amd64.tar.gz kubectl-warren", release + "darwin_arm64.tar.gz kubectl-warren",
		release + "windows_amd64.zip kubectl-warren.exe",
	}
	if difference := cmp.Diff(want, uris); difference != "" {
		t.Errorf("archives (-want +got):\n%s", difference)
	}
}

func TestWrongArguments(t *testing.T) {
	t.Parallel()
	for _, argument := range []string{"linux/amd64", "linux=binary", "linux/amd64=none"} {
		if err := run([]string{"-output", t.TempDir(), "-license", "main.go", argument}); err == nil {
			t.Errorf("%q was accepted", argument)
		}
	}
}

// krew accepts the manifest and the archive, and kubectl finds the installed plugin.
func TestKrewInstalls(t *testing.T) {
	t.Parallel()
	platform := runtime.GOOS + "/" + runtime.GOARCH
	folder, _ := made(t, platform)
	root := t.TempDir()
	archive := filepath.Join(folder, "kubectl-warren_"+strings.ReplaceAll(platform, "/", "_")+".tar.gz")
	install := exec.CommandContext(t.Context(), "../tool.sh", "krew", "install",
		"--manifest="+filepath.Join(folder, "kubectl-warren.yaml"), "--archive="+archive)
	install.Env = append(os.Environ(), "KREW_ROOT="+root, "KREW_NO_UPGRADE_CHECK=1")
	if output, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", install.Args, err, output)
	}
	output, err := exec.CommandContext(t.Context(), filepath.Join(root, "bin", "kubectl-warren")).CombinedOutput()
	if err != nil || string(output) != "this is the plugin\n" {
		t.Errorf("the plugin says %q: %v", output, err)
	}
}
