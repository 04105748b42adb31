// Package chart renders the Helm chart and compares its objects with the output of kustomize, which the other suites install. It
// also compiles the CEL of the objects with the oldest supported Kubernetes. It needs no API server. test/deployment shows that
// Helm installs, upgrades and removes the chart.
package chart
