package rabbit_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/test/deadline"
)

// otherPrime is an additional prime of a key with more than two primes.
type otherPrime struct{ Prime, Exponent, Coefficient *big.Int }

// rsaKey is an RSA key of PKCS #1. Without the last four fields, Go calculates them with each parse.
type rsaKey struct {
	Version          int
	N                *big.Int
	E                int
	D, P, Q          *big.Int
	DP, DQ, QInv     *big.Int     `asn1:"optional"`
	AdditionalPrimes []otherPrime `asn1:"optional,omitempty"`
}

// Nothing ends a calculation with numbers of thousands of bytes, so a tenant could occupy all workers of BrokerConnections with a Secret.
func TestKeysOfAnySizeAreValidatedSoon(t *testing.T) {
	t.Parallel()
	own, one := selfSigned(t), big.NewInt(1)
	with := func(key []byte) func(*rabbit.Config) {
		return func(c *rabbit.Config) { c.ClientCert, c.ClientKey = own.cert, key }
	}
	large := rsaKey{N: big.NewInt(3), E: 65537, D: one, P: odd(8 * 64 << 10), Q: big.NewInt(3)}
	largest := rsaKey{N: odd(8192), E: 65537, D: odd(8191), P: odd(4096), Q: odd(4096)}
	larger, largerPrime := largest, largest
	larger.N, largerPrime.P = odd(8193), odd(4097)
	manyPrimes := rsaKey{Version: 1, N: big.NewInt(3), E: 65537, D: one, P: big.NewInt(3), Q: big.NewInt(5), DP: one, DQ: one, QInv: one}
	for prime := range int64(10_000) {
		manyPrimes.AdditionalPrimes = append(manyPrimes.AdditionalPrimes, otherPrime{big.NewInt(2*prime + 7), one, one})
	}
	const tooLarge = "the client key (tls.key) is larger than an RSA key of 8192 bits; use a smaller one"
	for name, test := range map[string]struct {
		change func(*rabbit.Config)
		says   string
	}{
		"a key with a prime of 64 KiB":            {with(pkcs1(t, large)), tooLarge},
		"a key with a prime of 64 KiB in PKCS #8": {with(pkcs8(t, large)), tooLarge},
		"a key with 10,000 primes":                {with(pkcs1(t, manyPrimes)), tooLarge},
		"a key of 8193 bits":                      {with(pkcs1(t, larger)), tooLarge},
		"a prime of 4097 bits":                    {with(pkcs1(t, largerPrime)), tooLarge},
		"a key of 8192 bits":                      {with(pkcs1(t, largest)), "the client certificate and key: tls: failed to parse private key"},
		"an authority with a key of 16384 bits": {
			func(c *rabbit.Config) { c.CA = slices.Concat(own.cert, authority(t, 16384)) },
			"the CA bundle (ca.crt) has a certificate with an RSA key of 16384 bits; Warren accepts at most 8192",
		},
		"an authority with a key of 8192 bits": {func(c *rabbit.Config) { c.CA = authority(t, 8192) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := plausible
			test.change(&config)
			validated := make(chan error, 1)
			go func() { validated <- config.Validate() }()
			says := BeNil()
			if test.says != "" {
				says = MatchError(test.says)
			}
			NewWithT(t).Eventually(validated).WithTimeout(deadline.For(2 * time.Second)).Should(Receive(says))
		})
	}
}

// odd returns an odd number of this many bits.
func odd(bits uint) *big.Int {
	return new(big.Int).SetBit(big.NewInt(1), int(bits-1), 1)
}

func pkcs1(t *testing.T, key rsaKey) []byte {
	t.Helper()
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: inDER(t, key)})
}

func pkcs8(t *testing.T, key rsaKey) []byte {
	t.Helper()
	rsaEncryption := pkix.AlgorithmIdentifier{
		Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}, Parameters: asn1.NullRawValue,
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: inDER(t, struct {
		Version   int
		Algorithm pkix.AlgorithmIdentifier
		Key       []byte
	}{0, rsaEncryption, inDER(t, key)})})
}

func inDER(t *testing.T, value any) []byte {
	t.Helper()
	der, err := asn1.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// authority returns the certificate of an authority with an RSA key of this size. Its modulus is only a number, so there is no private key.
func authority(t *testing.T, bits uint) []byte {
	t.Helper()
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "large"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &rsa.PublicKey{N: odd(bits), E: 65537}, signer)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
