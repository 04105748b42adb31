package management

import (
	"net"
	"net/url"
	"strings"
)

// EndpointOf returns host:port of a URI, with the default port of its scheme; empty if the string is not a URI.
func EndpointOf(text string) string {
	uri, err := url.Parse(text)
	if err != nil {
		return ""
	}
	port := uri.Port()
	if port == "" {
		port = map[string]string{"amqp": "5672", "amqps": "5671", "http": "80", "https": "443"}[uri.Scheme]
	}
	return net.JoinHostPort(strings.ToLower(uri.Hostname()), port)
}
