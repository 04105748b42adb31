// Package amqpconn keeps AMQP connections and runs operations on their channels.
package amqpconn
