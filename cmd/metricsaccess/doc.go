// Package metricsaccess serves metrics to those whom the API server lets read them, and to nobody else. The filter of
// controller-runtime answers an invalid token with 500, and sends any number of tokens to the API server at a time.
package metricsaccess
