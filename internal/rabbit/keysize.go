package rabbit

import (
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
)

const (
	// maxKeyBits is the size of the largest RSA key. crypto/tls has the same limit for the certificates that a server sends. It has none
	// for the client's own key and for the authorities. Go 1.26 needs hours to parse a key whose prime has 64 KiB.
	maxKeyBits = 8192
	// maxKeyBytes is the size of the largest private key in DER. A private key of maxKeyBits has less than 5 KiB.
	maxKeyBytes = 16 << 10
)

// checkKeySize returns an error if a private key in PEM is too large to be parsed in a short time.
func checkKeySize(key []byte) error {
	for block, rest := pem.Decode(key); block != nil; block, rest = pem.Decode(rest) {
		if strings.HasSuffix(block.Type, "PRIVATE KEY") && isTooLarge(block.Bytes) {
			return fmt.Errorf("the client key (tls.key) is larger than an RSA key of %d bits; use a smaller one", maxKeyBits)
		}
	}
	return nil
}

// isTooLarge reports whether a private key in DER is too large. It reads the same fields as crypto/x509, which calculates with them.
func isTooLarge(der []byte) bool {
	if len(der) > maxKeyBytes {
		return true
	}
	var pkcs8 struct {
		Version   int
		Algorithm pkix.AlgorithmIdentifier
		Key       []byte
	}
	if _, err := asn1.Unmarshal(der, &pkcs8); err == nil {
		der = pkcs8.Key
	}
	var pkcs1 struct {
		Version int
		N       *big.Int
		E       int
		D, P, Q *big.Int
	}
	if _, err := asn1.Unmarshal(der, &pkcs1); err != nil {
		return false // not an RSA key
	}
	return max(pkcs1.N.BitLen(), pkcs1.D.BitLen()) > maxKeyBits || max(pkcs1.P.BitLen(), pkcs1.Q.BitLen()) > maxKeyBits/2
}

// checkAuthorities returns an error if one of the authorities in PEM has a key that is too large to verify a signature in a short time. It
// skips blocks that are no certificate, as x509.CertPool does.
func checkAuthorities(bundle []byte) error {
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			continue
		}
		if key, isRSA := certificate.PublicKey.(*rsa.PublicKey); isRSA && key.N.BitLen() > maxKeyBits {
			return fmt.Errorf("the CA bundle (ca.crt) has a certificate with an RSA key of %d bits; Warren accepts at most %d",
				key.N.BitLen(), maxKeyBits)
		}
	}
	return nil
}
