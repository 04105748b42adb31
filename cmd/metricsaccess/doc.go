// Package metricsaccess serves metrics only to users that the API server authorizes. It replaces the filter of controller-runtime, which
// answers an invalid token with 500 and does not limit the reviews that it sends to the API server.
package metricsaccess
