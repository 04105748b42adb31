package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// makeImage builds the image in a separate clone and returns the output directory.
func makeImage(t *testing.T, folder string) (dist string) {
	t.Helper()
	clone := filepath.Join(t.TempDir(), folder)
	for _, command := range []*exec.Cmd{
		exec.CommandContext(t.Context(), "git", "clone", "--quiet", "../../..", clone),
		exec.CommandContext(t.Context(), "make", "-C", clone, "image", "IMG="+tag, "VERSION=v1.2.3", "PLATFORMS="),
	} {
		command.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=", "OUTPUT=")
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command.Args, err, output)
		}
	}
	return filepath.Join(clone, "dist")
}

func TestMakeImageBuildsEachPlatformAndTheSameEverywhere(t *testing.T) {
	first, second := makeImage(t, "one"), makeImage(t, "somewhere/else")
	for architecture, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		binary, err := elf.Open(filepath.Join(first, "bin", "linux-"+architecture, "manager"))
		if err != nil {
			t.Fatal(err)
		}
		if binary.Machine != machine {
			t.Errorf("the manager for %s is built for %s", architecture, binary.Machine)
		}
		if err := binary.Close(); err != nil {
			t.Fatal(err)
		}
		if got := configFile(t, first, architecture).Architecture; got != architecture {
			t.Errorf("image-%s.tar is built for %s", architecture, got)
		}
	}
	if one, other := read(t, first, "image.digest"), read(t, second, "image.digest"); string(one) != string(other) {
		t.Errorf("digest %s in one directory, %s in another", strings.TrimSpace(string(one)), other)
	}
}
