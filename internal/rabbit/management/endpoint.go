package management

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/url"
	"strings"
)

// HashedID keeps the cluster's own id out of Kubernetes.
func HashedID(id string) string {
	if id == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256:" + hex.EncodeToString(sum[:16])
}

// EndpointOf is host:port of a URI; empty if it is none.
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
