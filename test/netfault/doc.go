// Package netfault has proxies that stand between a client and a server, and fail as networks do: they refuse connections,
// cut them, hold back what is sent, lead elsewhere, and change answers. Proxy passes on TCP connections, HTTPProxy passes on
// HTTP requests, and SlowAMQP passes on AMQP as a broker does that has too much to do. A server that misbehaves by itself is in
// package hostile.
package netfault
