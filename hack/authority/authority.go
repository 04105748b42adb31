// Package authority issues the certificates of test brokers and test clusters.
package authority

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// validity is long because certificates are cached.
const validity = 10 * 365 * 24 * time.Hour

// Pair is a certificate and its key in PEM.
type Pair struct{ Certificate, Key []byte }

// Authority is a certificate authority.
type Authority struct {
	Pair

	parent *x509.Certificate
	signer crypto.Signer
}

// New creates an authority with a name.
func New(name string) (*Authority, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	made := &Authority{parent: template, signer: key}
	if made.Pair, err = made.sign(template, key); err != nil {
		return nil, err
	}
	block, _ := pem.Decode(made.Certificate)
	made.parent, err = x509.ParseCertificate(block.Bytes)
	return made, err
}

// Issue creates a key and signs a certificate for it.
func (a *Authority) Issue(template *x509.Certificate) (Pair, error) {
	template.KeyUsage = x509.KeyUsageDigitalSignature
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	return a.sign(template, key)
}

func (a *Authority) sign(template *x509.Certificate, key crypto.Signer) (Pair, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return Pair{}, err
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(validity)
	certificate, err := x509.CreateCertificate(rand.Reader, template, a.parent, key.Public(), a.signer)
	if err != nil {
		return Pair{}, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
	}, nil
}

// Write writes NAME.crt and NAME.key to a folder.
func (p Pair) Write(folder, name string) error {
	if err := os.WriteFile(filepath.Join(folder, name+".crt"), p.Certificate, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, name+".key"), p.Key, 0o600)
}
