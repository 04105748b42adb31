// Package controllertest makes resources and API servers in memory for the tests of controllers.
package controllertest
