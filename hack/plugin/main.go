// Command plugin packs kubectl-warren for each platform and writes the krew manifest. The same input produces the same bytes.
//
//	plugin [flag…] OS/ARCHITECTURE=BINARY…    such as linux/amd64=dist/bin/linux-amd64/kubectl-warren
package main

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"
)

//go:embed kubectl-warren.yaml.tmpl
var manifest string

// release is the data of the manifest.
type release struct {
	Version  string
	Archives []archive
}

type archive struct {
	OS, Architecture string
	// Name of the archive, and of the binary in it.
	Name, Binary string
	SHA256       string
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "plugin:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	flags := flag.NewFlagSet("plugin", flag.ExitOnError)
	output := flags.String("output", "dist", "The folder to write into.")
	version := flags.String("version", "", "The version of Warren, such as v1.2.3.")
	epoch := flags.Int64("epoch", 0, "When the commit was made, in seconds since 1970.")
	license := flags.String("license", "LICENSE", "The file with the license.")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	terms, err := os.ReadFile(*license)
	if err != nil {
		return err
	}
	made := release{Version: *version}
	for _, argument := range flags.Args() {
		packed, err := pack(argument, terms, time.Unix(*epoch, 0).UTC(), *output)
		if err != nil {
			return err
		}
		made.Archives = append(made.Archives, packed)
	}
	text, err := made.manifest()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(*output, "kubectl-warren.yaml"), text, 0o644)
}

// pack writes the archive for one platform: a zip file for Windows, otherwise a tar file.
func pack(argument string, terms []byte, made time.Time, output string) (archive, error) {
	platform, path, found := strings.Cut(argument, "=")
	system, architecture, whole := strings.Cut(platform, "/")
	if !found || !whole {
		return archive{}, fmt.Errorf("argument %q is not of the form OS/ARCHITECTURE=BINARY", argument)
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		return archive{}, err
	}
	packed := archive{OS: system, Architecture: architecture, Binary: "kubectl-warren"}
	write, suffix := writeTar, ".tar.gz"
	if system == "windows" {
		write, suffix, packed.Binary = writeZip, ".zip", "kubectl-warren.exe"
	}
	packed.Name = fmt.Sprintf("kubectl-warren_%s_%s%s", system, architecture, suffix)
	content := &bytes.Buffer{}
	if err := write(content, made, []file{{packed.Binary, 0o755, binary}, {"LICENSE", 0o644, terms}}); err != nil {
		return archive{}, fmt.Errorf("%s: %w", packed.Name, err)
	}
	sum := sha256.Sum256(content.Bytes())
	packed.SHA256 = hex.EncodeToString(sum[:])
	return packed, os.WriteFile(filepath.Join(output, packed.Name), content.Bytes(), 0o644)
}

func (r release) manifest() ([]byte, error) {
	parsed, err := template.New("kubectl-warren.yaml").Parse(manifest)
	if err != nil {
		return nil, err
	}
	text := &bytes.Buffer{}
	err = parsed.Execute(text, r)
	return text.Bytes(), err
}
