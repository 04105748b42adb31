// Package metricsaccess serves metrics to those whom the API server lets read them, and to nobody else. It asks the API server who a
// caller is and what the caller may do, as the filter of controller-runtime does. That filter brings the libraries of the API server
// itself into the program: 20 MiB of memory in a manager that does nothing, see docs/adr/0029-memory.md.
package metricsaccess
