package rabbit

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/warren-mq/warren/internal/rabbit/amqpconn"
	"github.com/warren-mq/warren/internal/rabbit/brokererr"
	"github.com/warren-mq/warren/internal/rabbit/management"
	"github.com/warren-mq/warren/internal/rabbit/observe"
)

// Config describes how to reach one vhost of a broker. It is a plain value with TLS material as PEM, so that Fingerprint can compare two
// Configs.
type Config struct {
	// AMQPURI is amqp://host[:port] or amqps://host[:port].
	AMQPURI string
	// ManagementURI is http://host[:port][/prefix] or https://host[:port][/prefix].
	ManagementURI string

	Username string
	Password string `json:"-"`
	VHost    string

	// CA holds the PEM certificates of the authorities that may sign the broker's certificate; the system's if empty.
	CA []byte
	// ClientCert and ClientKey are the PEM certificate and key of the client; none if both are empty.
	ClientCert []byte
	ClientKey  []byte `json:"-"`
	// ServerName is the name that the broker's certificate must have; the host of the URI if empty.
	ServerName string
	// InsecureSkipVerify accepts any certificate of the broker.
	InsecureSkipVerify bool

	// Owner distinguishes this connection from other connections of Warren to the vhost, for example by the UID of a
	// BrokerConnection. It marks short-lived objects at the broker, so that Warren can remove them after a crash.
	Owner string

	// ResyncInterval is the time between two refreshes of the vhost.
	ResyncInterval time.Duration

	// MessageCountsInterval is the shortest time between two counts of the messages in the vhost; zero disables the counts. It is
	// not part of Fingerprint.
	MessageCountsInterval time.Duration

	// KnownOwners returns a function that reports whether an owner belongs to this process. The function serves one refresh and one
	// goroutine. Nothing is removed while the vhost has connections or fences of other owners. If KnownOwners is nil, all owners are
	// known. It is not part of Fingerprint.
	KnownOwners func() func(owner string) bool `json:"-"`

	// Recreates reports whether a recreation of a queue is under way through this connection. The fence of any other recreation is
	// removed once no delete can be running. If Recreates is nil, such a fence stays. It is not part of Fingerprint.
	Recreates func(queue string) bool `json:"-"`

	// HoldsLease reports whether this process still leads. If it does not, nothing is deleted, no fence is changed, and recreations
	// stop. If HoldsLease is nil, the process always leads. It is not part of Fingerprint.
	HoldsLease func() bool `json:"-"`

	// Observations are shared by all connections of the process. If nil, the connection has its own. They are not part of Fingerprint.
	Observations *Observations `json:"-"`

	// Limits bound the memory that the broker's answers may take. If nil, the connection has its own. They are not part of Fingerprint.
	Limits *management.Limits
}

// Observations hold the snapshots that the connections of a process share.
type Observations = observe.Observations

// NewObservations returns an empty set.
func NewObservations() *Observations { return observe.NewObservations() }

// managementOptions returns the options of a client of the management API. The configuration must have Limits.
func (c Config) managementOptions(to endpoints, timeout time.Duration, connections int) management.Options {
	return management.Options{
		URI: to.management, TLS: to.tls, Username: c.Username, Password: c.Password, VHost: c.VHost,
		Endpoint: management.EndpointOf(c.AMQPURI), Timeout: timeout, Connections: connections, Limits: c.Limits,
		HoldsLease: c.HoldsLease,
	}
}

func (c Config) dialOptions(to endpoints, timeout time.Duration) amqpconn.DialOptions {
	return amqpconn.DialOptions{
		URI: to.amqp, TLS: to.tls, Username: c.Username, Password: c.Password, VHost: c.VHost, Owner: c.Owner, Timeout: timeout,
		Pace: amqpconn.NewPace(),
	}
}

func (c Config) errors() brokererr.Errors {
	return brokererr.Errors{Username: c.Username, Password: c.Password, VHost: c.VHost}
}

// Validate returns an error that describes the first field that cannot be used. It shows no credentials.
func (c Config) Validate() error {
	_, err := c.parse()
	return err
}

// endpoints are the parsed URIs and the TLS configuration.
type endpoints struct {
	amqp, management *url.URL
	tls              *tls.Config
}

func (c Config) parse() (endpoints, error) {
	amqpURI, err := parseURI("the AMQP URI", c.AMQPURI, "amqp", "amqps")
	if err != nil {
		return endpoints{}, err
	}
	managementURI, err := parseURI("the management URI", c.ManagementURI, "http", "https")
	if err != nil {
		return endpoints{}, err
	}
	if c.VHost == "" {
		return endpoints{}, errors.New("the vhost must not be empty; the default vhost is \"/\"")
	}
	if c.ResyncInterval <= 0 {
		return endpoints{}, fmt.Errorf("the resync interval must be above zero, but is %v", c.ResyncInterval)
	}
	tlsConfig, err := c.tlsConfig()
	return endpoints{amqp: amqpURI, management: managementURI, tls: tlsConfig}, err
}

// parseURI never quotes the URI, because a URI that does not parse may hold a password anywhere.
func parseURI(name, text, plain, secure string) (*url.URL, error) {
	uri, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s cannot be parsed", name)
	case uri.User != nil:
		return nil, fmt.Errorf("%s must not contain a user or password", name)
	case uri.Scheme != plain && uri.Scheme != secure:
		return nil, fmt.Errorf("%s must begin with %s:// or %s://", name, plain, secure)
	case uri.Hostname() == "":
		return nil, fmt.Errorf("%s has no host", name)
	}
	return uri, nil
}

func (c Config) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         c.ServerName,
		InsecureSkipVerify: c.InsecureSkipVerify, // the user asked for it by name
	}
	if len(c.CA) > 0 {
		if err := checkAuthorities(c.CA); err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(c.CA) {
			return nil, errors.New("the CA bundle holds no PEM certificate")
		}
	}
	if len(c.ClientCert) == 0 && len(c.ClientKey) == 0 {
		return config, nil
	}
	if len(c.ClientCert) == 0 || len(c.ClientKey) == 0 {
		return nil, errors.New("the client certificate and key must be given together")
	}
	if err := checkKeySize(c.ClientKey); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(c.ClientCert, c.ClientKey)
	if err != nil {
		return nil, fmt.Errorf("the client certificate and key: %w", err)
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}

// Fingerprint returns a SHA-256 over every field, password and keys included, in hexadecimal.
func (c Config) Fingerprint() string {
	return fingerprint(c.brokerFingerprint(), c.Username, c.Password, c.VHost, c.Owner, string(c.ClientCert), string(c.ClientKey),
		c.ResyncInterval.String())
}

// brokerFingerprint distinguishes two brokers by their endpoints, and by the settings that decide which certificates are valid.
func (c Config) brokerFingerprint() string {
	return fingerprint(c.AMQPURI, c.ManagementURI, c.ServerName, string(c.CA), strconv.FormatBool(c.InsecureSkipVerify))
}

func fingerprint(parts ...string) string {
	hash := sha256.New()
	for _, part := range parts { // with its length, so that "ab", "c" and "a", "bc" differ
		hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		hash.Write([]byte(part))
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// String describes the connection without its secrets.
func (c Config) String() string {
	return fmt.Sprintf("vhost %q at %s and %s as user %q",
		c.VHost, brokererr.WithoutCredentials(c.AMQPURI), brokererr.WithoutCredentials(c.ManagementURI), c.Username)
}

// Format prevents all verbs, including %+v and %#v, from printing a secret.
func (c Config) Format(state fmt.State, _ rune) { fmt.Fprint(state, c.String()) }

// MarshalLog prevents loggers from reading the fields.
func (c Config) MarshalLog() any { return c.String() }
