// Package buildinfo reports which build of Warren runs, for --version and for the metric warren_build_info.
package buildinfo

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Set by the linker (-X) for releases and images; see hack/image.sh.
var (
	version  string
	revision string
)

// Info describes the build of this process.
type Info struct {
	Version, Revision, GoVersion string
}

// Get returns the build of this process. A build without linker flags, such as `go build ./cmd`, has the version "devel", and the
// revision that Go recorded.
func Get() Info {
	info := Info{Version: version, Revision: revision, GoVersion: runtime.Version()}
	if info.Version == "" {
		info.Version = "devel"
	}
	if info.Revision == "" {
		info.Revision = recordedRevision(debug.ReadBuildInfo())
	}
	return info
}

func recordedRevision(recorded *debug.BuildInfo, found bool) string {
	if found {
		for _, setting := range recorded.Settings {
			if setting.Key == "vcs.revision" {
				return setting.Value
			}
		}
	}
	return "unknown"
}

// String is what --version prints.
func (i Info) String() string {
	return fmt.Sprintf("warren %s, revision %s, %s", i.Version, i.Revision, i.GoVersion)
}
