package management

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/url"
	"strings"
)

// HashedID returns a hash of a cluster's id, because the id itself must not appear in Kubernetes. It is empty for an empty id.
func HashedID(id string) string {
	if id == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256:" + hex.EncodeToString(sum[:16])
}

// EndpointOf returns host:port of a URI, with the default port of its scheme; empty if the text is no URI.
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
