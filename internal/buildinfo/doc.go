// Package buildinfo says which build of Warren runs: for --version, and as the metric warren_build_info.
package buildinfo
