// Command release writes what a release has besides the image and the plugin. The same input gives the same bytes.
//
//	release chart [flag…]         the chart, pinned to the digest of the image, as an archive and as an OCI layout
//	release sbom [flag…] BINARY   the list of what is in a binary
//	release provenance [flag…]    how the files of a folder were built
//	release notes [flag…]         the section of a version in the changelog
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/warren-mq/warren/hack/tools/bom"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is what its parts have in common.
type release struct {
	// output is the folder to write into.
	output string
	// version is that of Warren, such as v1.2.3.
	version, revision string
	// registry is where image and chart are published, such as ghcr.io/warren-mq.
	registry string
	// changelog is a file in the format of https://keepachangelog.com.
	changelog string
	// epoch is the time of the commit, in seconds since 1970.
	epoch int64
}

func run(arguments []string) error {
	if len(arguments) == 0 {
		return errors.New("usage: release chart|sbom|provenance|notes [flag…]")
	}
	r := release{}
	flags := flag.NewFlagSet(arguments[0], flag.ExitOnError)
	flags.StringVar(&r.output, "output", "dist", "The folder to write into.")
	flags.StringVar(&r.version, "version", "", "The version of Warren.")
	flags.StringVar(&r.revision, "revision", "", "The commit.")
	flags.StringVar(&r.registry, "registry", "ghcr.io/warren-mq", "Where image and chart are published.")
	flags.StringVar(&r.changelog, "changelog", "CHANGELOG.md", "The changelog.")
	flags.Int64Var(&r.epoch, "epoch", 0, "When the commit was made, in seconds since 1970.")
	chart := flags.String("chart", "charts/warren", "The folder of the chart.")
	builder := flags.String("builder", "https://github.com/warren-mq/warren/blob/main/hack/release.sh", "What runs the build, for the provenance.")
	_ = flags.Parse(arguments[1:]) // ends the process at an error
	switch arguments[0] {
	case "chart":
		return r.packageChart(*chart)
	case "sbom":
		return r.listBinary(flags.Arg(0))
	case "provenance":
		return r.describeBuild(*builder)
	case "notes":
		return r.cutNotes()
	}
	return fmt.Errorf("there is no command %q", arguments[0])
}

func (r release) created() time.Time { return time.Unix(r.epoch, 0).UTC() }

// plain is the version as Helm and the changelog have it, without the v.
func (r release) plain() string { return strings.TrimPrefix(r.version, "v") }

// listBinary names the list after the folder of the binary, which is that of its platform: bin/linux-amd64/kubectl-warren.
func (r release) listBinary(binary string) error {
	name := fmt.Sprintf("sbom-%s-%s.cdx.json", filepath.Base(binary), filepath.Base(filepath.Dir(binary)))
	return bom.Binary{Path: binary, Version: r.version, Created: r.created()}.Write(filepath.Join(r.output, name))
}

func (r release) cutNotes() error {
	text, err := os.ReadFile(r.changelog)
	if err != nil {
		return err
	}
	notes, err := section(string(text), r.plain())
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.output, "release-notes.md"), []byte(notes), 0o644)
}
