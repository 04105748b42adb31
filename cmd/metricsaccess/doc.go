// Package metricsaccess serves metrics to users whom the API server allows to read them. The filter of
// controller-runtime answers an invalid token with 500, and sends any number of tokens to the API server at a time.
package metricsaccess
