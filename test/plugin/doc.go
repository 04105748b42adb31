// Package plugin shows kubectl warren as its users run it: the built binary, started by kubectl, against a real kube-apiserver with the
// operator and a real RabbitMQ.
package plugin
