// Package topologytest builds specs and topologies for tests, and does to a vhost in memory what a broker does.
package topologytest
