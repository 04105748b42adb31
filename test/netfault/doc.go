// Package netfault contains proxies between a client and a server that fail as networks do. They refuse, close, delay or redirect
// connections and change responses. Proxy forwards TCP connections, HTTPProxy forwards HTTP requests, and FrameProxy forwards
// AMQP frame by frame and lets a test decide about each frame. SlowAMQP is a FrameProxy that behaves like a busy broker. Servers
// that misbehave are in package hostile.
package netfault
