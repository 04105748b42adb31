// Command certs writes a certificate authority, a server certificate and a client certificate for the test brokers. It does
// nothing if the directory already exists.
//
//	go run ./hack/certs FOLDER
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// The certificates are cached, so they must not expire soon.
const validity = 10 * 365 * 24 * time.Hour

type pair struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: certs FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "certs:", err)
		os.Exit(1)
	}
}

// run fills a temporary directory and renames it, so that the directory is never incomplete.
func run(folder string) error {
	if _, err := os.Stat(folder); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return err
	}
	temporary, err := os.MkdirTemp(filepath.Dir(folder), ".tls-")
	if err != nil {
		return err
	}
	if err := writeAll(temporary); err != nil {
		return err
	}
	return os.Rename(temporary, folder)
}

func writeAll(folder string) error {
	authority, err := issue(&x509.Certificate{
		Subject:               pkix.Name{CommonName: "Warren test CA"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}, nil)
	if err != nil {
		return err
	}
	if err := authority.write(folder, "ca"); err != nil {
		return err
	}
	for name, template := range map[string]*x509.Certificate{
		"server": {
			Subject:     pkix.Name{CommonName: "localhost"},
			DNSNames:    []string{"localhost"},
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
			KeyUsage:    x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		},
		"client": {
			Subject:     pkix.Name{CommonName: "guest"},
			KeyUsage:    x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		},
	} {
		issued, err := issue(template, authority)
		if err != nil {
			return err
		}
		if err := issued.write(folder, name); err != nil {
			return err
		}
	}
	return nil
}

// issue signs a certificate with the authority. If authority is nil, the certificate is self-signed.
func issue(template *x509.Certificate, authority *pair) (*pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(validity)
	parent := &pair{certificate: template, key: key}
	if authority != nil {
		parent = authority
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent.certificate, key.Public(), parent.key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &pair{certificate: certificate, key: key}, nil
}

func (p *pair) write(folder, name string) error {
	der, err := x509.MarshalPKCS8PrivateKey(p.key)
	if err != nil {
		return err
	}
	for suffix, block := range map[string]*pem.Block{
		".crt": {Type: "CERTIFICATE", Bytes: p.certificate.Raw},
		".key": {Type: "PRIVATE KEY", Bytes: der},
	} {
		if err := os.WriteFile(filepath.Join(folder, name+suffix), pem.EncodeToMemory(block), 0o600); err != nil {
			return err
		}
	}
	return nil
}
