package rabbit_test

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
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/rabbit/snapshot"
)

type pair struct{ cert, key []byte }

// selfSigned returns a certificate that no broker trusts.
func selfSigned(t *testing.T) pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "nobody"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pair{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}),
	}
}

var plausible = rabbit.Config{
	AMQPURI: "amqps://rabbit.example", ManagementURI: "https://rabbit.example/prefix", Username: "warren", Password: "s3cret-word",
	VHost: "/", ResyncInterval: time.Second,
}

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	own := selfSigned(t)
	cases := map[string]struct {
		change func(*rabbit.Config)
		says   string
	}{
		"as it should be":            {func(*rabbit.Config) {}, ""},
		"with certificates":          {func(c *rabbit.Config) { c.CA, c.ClientCert, c.ClientKey = own.cert, own.cert, own.key }, ""},
		"no AMQP URI":                {func(c *rabbit.Config) { c.AMQPURI = "" }, "the AMQP URI must begin with amqp:// or amqps://"},
		"AMQP over HTTP":             {func(c *rabbit.Config) { c.AMQPURI = "http://h" }, "the AMQP URI must begin with amqp:// or amqps://"},
		"management over AMQP":       {func(c *rabbit.Config) { c.ManagementURI = "amqp://h" }, "the management URI must begin with http:// or https://"},
		"no host":                    {func(c *rabbit.Config) { c.ManagementURI = "http://:15672" }, "the management URI has no host"},
		"password in the AMQP URI":   {func(c *rabbit.Config) { c.AMQPURI = "amqp://u:s3cret-word@h" }, "the AMQP URI must not contain a user or password"},
		"user in the URI":            {func(c *rabbit.Config) { c.ManagementURI = "http://u@h" }, "the management URI must not contain a user or password"},
		"URI that is none":           {func(c *rabbit.Config) { c.AMQPURI = "amqp://u:s3cret-word@h:x" }, "the AMQP URI cannot be parsed"},
		"no vhost":                   {func(c *rabbit.Config) { c.VHost = "" }, `the vhost must not be empty; the default vhost is "/"`},
		"no interval":                {func(c *rabbit.Config) { c.ResyncInterval = 0 }, "the resync interval must be above zero, but is 0s"},
		"CA that is none":            {func(c *rabbit.Config) { c.CA = []byte("s3cret-word") }, "the CA bundle holds no PEM certificate"},
		"certificate without key":    {func(c *rabbit.Config) { c.ClientCert = own.cert }, "the client certificate and key must be given together"},
		"key without certificate":    {func(c *rabbit.Config) { c.ClientKey = own.key }, "the client certificate and key must be given together"},
		"key of another certificate": {func(c *rabbit.Config) { c.ClientCert, c.ClientKey = own.cert, selfSigned(t).key }, "the client certificate and key: tls: private key does not match public key"},
		"key that is none":           {func(c *rabbit.Config) { c.ClientCert, c.ClientKey = own.cert, []byte("s3cret-word") }, "the client certificate and key: tls: failed to find any PEM data in key input"},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := plausible
			test.change(&config)
			err := config.Validate()
			if text(err) != test.says {
				t.Errorf("said %q, should say %q", text(err), test.says)
			}
			if _, opened := rabbit.Open(config, logr.Discard(), func(snapshot.Notice) {}); test.says != "" && text(opened) != test.says {
				t.Errorf("Open said %v", opened)
			}
		})
	}
}

func TestConfigFingerprintDependsOnEveryField(t *testing.T) {
	t.Parallel()
	changes := map[string]func(*rabbit.Config){
		"AMQPURI": func(c *rabbit.Config) { c.AMQPURI += "x" }, "ManagementURI": func(c *rabbit.Config) { c.ManagementURI += "x" },
		"Username": func(c *rabbit.Config) { c.Username += "x" }, "Password": func(c *rabbit.Config) { c.Password += "x" },
		"VHost": func(c *rabbit.Config) { c.VHost += "x" }, "ServerName": func(c *rabbit.Config) { c.ServerName += "x" },
		"CA": func(c *rabbit.Config) { c.CA = []byte("x") }, "ClientCert": func(c *rabbit.Config) { c.ClientCert = []byte("x") },
		"ClientKey": func(c *rabbit.Config) { c.ClientKey = []byte("x") }, "InsecureSkipVerify": func(c *rabbit.Config) { c.InsecureSkipVerify = true },
		"ResyncInterval": func(c *rabbit.Config) { c.ResyncInterval++ }, "Owner": func(c *rabbit.Config) { c.Owner += "x" },
		"a letter moved": func(c *rabbit.Config) { c.Username, c.Password = "warrens", "3cret-word" },
	}
	seen := map[string]string{plausible.Fingerprint(): "none"}
	for name, change := range changes {
		config := plausible
		change(&config)
		fingerprint := config.Fingerprint()
		if other, exists := seen[fingerprint]; exists {
			t.Errorf("%s has the fingerprint of %s", name, other)
		}
		if seen[fingerprint] = name; fingerprint != config.Fingerprint() {
			t.Errorf("%s: the fingerprint is not stable", name)
		}
	}
}

func TestConfigShowsNoSecret(t *testing.T) {
	t.Parallel()
	config := plausible
	config.ClientKey = []byte("s3cret-key")
	config.AMQPURI = "amqp://u:s3cret-uri@host" // refused, and perhaps logged for that
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		for _, value := range []any{config, &config, []rabbit.Config{config}, map[string]rabbit.Config{"a": config}, struct{ C rabbit.Config }{config}} {
			if shown := fmt.Sprintf(verb, value); strings.Contains(shown, "s3cret") || !strings.Contains(shown, "amqp://host") {
				t.Errorf("%s of a %T is %s", verb, value, shown)
			}
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
