// Package bom writes a software bill of materials (SBOM, CycloneDX) for a Go binary.
package bom

import (
	"debug/buildinfo"
	"os"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// Binary is a Go binary of a release.
type Binary struct {
	Path string
	// Version is the version of Warren, such as v1.2.3.
	Version string
	Created time.Time
}

// Write writes an SBOM of the modules that are linked into the binary, the Go standard library, and further components.
func (b Binary) Write(path string, further ...cdx.Component) (failed error) {
	linked, err := buildinfo.ReadFile(b.Path)
	if err != nil {
		return err
	}
	components := []cdx.Component{Library("stdlib", strings.TrimPrefix(linked.GoVersion, "go"))}
	for _, module := range linked.Deps {
		version := module.Version
		if module.Replace != nil {
			version = module.Replace.Version
		}
		if version == "" || version == "(devel)" { // a module of this repository
			version = b.Version
		}
		components = append(components, Library(module.Path, version))
	}
	components = append(components, further...)
	list := cdx.NewBOM()
	list.Metadata = &cdx.Metadata{
		Timestamp: b.Created.Format("2006-01-02T15:04:05Z"),
		Component: &cdx.Component{
			BOMRef: "warren", Type: cdx.ComponentTypeApplication, Name: linked.Main.Path, Version: b.Version,
			PackageURL: "pkg:golang/" + linked.Main.Path + "@" + b.Version,
		},
	}
	list.Components = &components
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if err := file.Close(); failed == nil {
			failed = err
		}
	}()
	return cdx.NewBOMEncoder(file, cdx.BOMFileFormatJSON).SetPretty(true).Encode(list)
}

// Library returns the component for a Go module.
func Library(path, version string) cdx.Component {
	url := "pkg:golang/" + path + "@" + version
	return cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: url}
}
