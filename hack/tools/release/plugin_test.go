package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A package that does not compile for a foreign platform would otherwise be found by the workflow of a release. With an empty cache the
// compiler takes many minutes, so the test does not run with -short.
func TestPluginIsBuiltForEachPlatform(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all builds the plugin for each platform")
	}
	folder := t.TempDir()
	command := exec.CommandContext(t.Context(), "../../plugin.sh")
	command.Env = append(os.Environ(), "VERSION=v1.2.3", "PLATFORMS=", "OUTPUT="+folder)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	for _, archive := range []string{
		"linux_amd64.tar.gz", "linux_arm64.tar.gz", "darwin_amd64.tar.gz", "darwin_arm64.tar.gz", "windows_amd64.zip",
	} {
		if _, err := os.Stat(filepath.Join(folder, "kubectl-warren_"+archive)); err != nil {
			t.Error(err)
		}
	}
}
