// Package brokererr says why something failed at a broker, without secrets.
package brokererr
