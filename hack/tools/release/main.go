// Command release writes the artifacts of a release other than the image and the plugin. The same input produces the same bytes.
//
//	release chart [flag…]         the chart, pinned to the digest of the image, as an archive and as an OCI layout
//	release sbom [flag…] BINARY   the software bill of materials of a binary
//	release provenance [flag…]    the provenance of the files in a directory
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

// release contains the flags that the commands share.
type release struct {
	// output is the directory for the artifacts.
	output string
	// version is the version of Warren, such as v1.2.3.
	version, revision string
	// registry is the registry for image and chart, such as ghcr.io/warren-mq.
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
	_ = flags.Parse(arguments[1:]) // exits on an error
	switch arguments[0] {
	case "chart":
		return r.packageChart(*chart)
	case "sbom":
		return r.writeBOM(flags.Arg(0))
	case "provenance":
		return r.describeBuild(*builder)
	case "notes":
		return r.writeNotes()
	}
	return fmt.Errorf("unknown command %q: use chart, sbom, provenance or notes", arguments[0])
}

func (r release) created() time.Time { return time.Unix(r.epoch, 0).UTC() }

// plain returns the version without the v, as Helm and the changelog use it.
func (r release) plain() string { return strings.TrimPrefix(r.version, "v") }

// writeBOM names the SBOM after the directory of the binary, which is named after its platform: bin/linux-amd64/kubectl-warren.
func (r release) writeBOM(binary string) error {
	name := fmt.Sprintf("sbom-%s-%s.cdx.json", filepath.Base(binary), filepath.Base(filepath.Dir(binary)))
	return bom.Binary{Path: binary, Version: r.version, Created: r.created()}.Write(filepath.Join(r.output, name))
}

func (r release) writeNotes() error {
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
