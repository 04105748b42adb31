package main

import (
	"runtime/debug"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"github.com/warren-mq/warren/hack/tools/bom"
)

// roots is the module of the root certificates; see certificates.
const roots = "golang.org/x/crypto/x509roots/fallback"

// writeBOM writes the SBOM of the image: the modules of the manager, and the module of the root certificates.
func (s source) writeBOM(path, binary string) error {
	var further []cdx.Component
	if own, found := debug.ReadBuildInfo(); found {
		for _, module := range own.Deps {
			if module.Path == roots {
				certificates := bom.Library(module.Path, module.Version)
				certificates.Type = cdx.ComponentTypeData
				further = append(further, certificates)
			}
		}
	}
	return bom.Binary{Path: binary, Version: s.version, Created: s.created}.Write(path, further...)
}
