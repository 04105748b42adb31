package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strconv"

	amqp "github.com/rabbitmq/amqp091-go"
)

// connect opens a TCP connection, and TLS on it if the scheme is amqps. Without TLS, stream is line.
func (a *AMQP) connect(ctx context.Context, uri amqp.URI) (line, stream net.Conn, err error) {
	dial := a.DialTCP
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	line, err = dial(ctx, "tcp", net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port)))
	if err != nil || uri.Scheme != "amqps" {
		return line, line, err
	}
	config, err := a.tlsConfig(uri)
	if err == nil {
		secured := tls.Client(line, config)
		if err = secured.HandshakeContext(ctx); err == nil {
			return line, secured, nil
		}
	}
	_ = line.Close()
	return nil, nil, err
}

// tlsConfig returns the TLS configuration of the application. Without one, it creates a configuration from the parameters of the URI, as
// amqp091-go does. It sets an empty ServerName to the host of the URI.
func (a *AMQP) tlsConfig(uri amqp.URI) (*tls.Config, error) {
	config := a.TLS.Clone()
	if config == nil {
		config = &tls.Config{ServerName: uri.ServerName, MinVersion: tls.VersionTLS12}
		if uri.CACertFile != "" {
			authorities, err := os.ReadFile(uri.CACertFile)
			if err != nil {
				return nil, fmt.Errorf("read the CA certificate: %w", err)
			}
			config.RootCAs = x509.NewCertPool()
			if !config.RootCAs.AppendCertsFromPEM(authorities) {
				return nil, fmt.Errorf("file %q has no CA certificate in PEM", uri.CACertFile)
			}
		}
		if uri.CertFile != "" && uri.KeyFile != "" {
			certificate, err := tls.LoadX509KeyPair(uri.CertFile, uri.KeyFile)
			if err != nil {
				return nil, fmt.Errorf("load the client certificate %q and key %q: %w", uri.CertFile, uri.KeyFile, err)
			}
			config.Certificates = []tls.Certificate{certificate}
		}
	}
	if config.ServerName == "" {
		config.ServerName = uri.Host
	}
	return config, nil
}
