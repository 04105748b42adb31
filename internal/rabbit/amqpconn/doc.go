// Package amqpconn keeps AMQP connections and runs operations on their channels, as many at a time as the broker takes (limit.go).
package amqpconn
