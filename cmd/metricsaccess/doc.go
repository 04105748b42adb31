// Package metricsaccess serves metrics only to users that the API server authorizes. The filter of controller-runtime answers an
// invalid token with 500, and does not limit the reviews that it sends to the API server.
package metricsaccess
