package main

import (
	"debug/buildinfo"
	"os"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// roots is the module that certificates come from; see certificates.
const roots = "golang.org/x/crypto/x509roots/fallback"

// writeBOM lists the modules that are linked into a binary, Go's own library, and where the certificates come from.
func (s source) writeBOM(path, binary string) (failed error) {
	linked, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	components := []cdx.Component{library("stdlib", strings.TrimPrefix(linked.GoVersion, "go"))}
	for _, module := range linked.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		version := module.Version
		if version == "(devel)" { // of this repository, by go.work
			version = s.version
		}
		components = append(components, library(module.Path, version))
	}
	if own, found := debug.ReadBuildInfo(); found {
		for _, module := range own.Deps {
			if module.Path == roots {
				certificates := library(module.Path, module.Version)
				certificates.Type = cdx.ComponentTypeData
				components = append(components, certificates)
			}
		}
	}
	list := cdx.NewBOM()
	list.Metadata = &cdx.Metadata{
		Timestamp: s.created.Format("2006-01-02T15:04:05Z"),
		Component: &cdx.Component{
			BOMRef: "warren", Type: cdx.ComponentTypeApplication, Name: linked.Main.Path, Version: s.version,
			PackageURL: "pkg:golang/" + linked.Main.Path + "@" + s.version,
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

func library(path, version string) cdx.Component {
	url := "pkg:golang/" + path + "@" + version
	return cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: url}
}
