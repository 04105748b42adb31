// Package chart renders the Helm chart and compares the objects with those of kustomize, which the other suites install. It
// also compiles the CEL of the objects as the oldest Kubernetes does. It needs no API server. That the real helm installs, upgrades
// and removes the chart, test/deployment shows.
package chart
