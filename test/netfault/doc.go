// Package netfault has proxies that stand between a client and a server, and fail as networks do: they refuse connections,
// cut them, hold back what is sent, lead elsewhere, and change answers. Proxy passes on TCP connections, HTTPProxy passes on
// HTTP requests, and FrameProxy passes on AMQP frame by frame and has a test decide about each. SlowAMQP is a FrameProxy that
// behaves as a broker with too much to do. A server that misbehaves by itself is in package hostile.
package netfault
