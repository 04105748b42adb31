// Command certs writes a certificate authority, a server certificate and a client certificate for the test brokers. It does
// nothing if the directory already exists.
//
//	go run ./hack/certs FOLDER
package main

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/warren-mq/warren/hack/authority"
)

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
	ca, err := authority.New("Warren test CA")
	if err != nil {
		return err
	}
	if err := ca.Write(folder, "ca"); err != nil {
		return err
	}
	for name, template := range map[string]*x509.Certificate{
		"server": {
			Subject:     pkix.Name{CommonName: "localhost"},
			DNSNames:    []string{"localhost"},
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		},
		"client": {Subject: pkix.Name{CommonName: "guest"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
	} {
		issued, err := ca.Issue(template)
		if err != nil {
			return err
		}
		if err := issued.Write(folder, name); err != nil {
			return err
		}
	}
	return nil
}
