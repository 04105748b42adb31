package brokers

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/warren-mq/warren/test/deadline"
)

const (
	remedy    = "no broker: run make test or make run, or set WARREN_TEST_BROKERS as `hack/brokers.sh env` prints it"
	remedyTLS = "no broker to test TLS with: run make test, or set WARREN_TEST_TLS_BROKERS and WARREN_TEST_TLS_DIR " +
		"as `hack/brokers.sh env` prints them"
)

// TB is the part of testing.TB that this package needs. Programs use program.Program.
type TB interface {
	Helper()
	Fatal(text ...any)
	Fatalf(format string, arguments ...any)
	Cleanup(function func())
	TempDir() string
	Context() context.Context
}

// Broker is a running RabbitMQ.
type Broker struct {
	// AMQPURI and ManagementURI contain no user and password.
	AMQPURI, ManagementURI string
	// Username and Password belong to an administrator.
	Username, Password string
	// Version is the version of the broker, such as 4.3.6, and Erlang the version of its runtime.
	Version, Erlang string

	client *http.Client
	tls    *tls.Config
}

// All lists the brokers that WARREN_TEST_BROKERS names: pairs of URIs with credentials, separated by spaces, as in
// amqp://guest:guest@127.0.0.1:5672,http://guest:guest@127.0.0.1:15672.
func All(tb TB) []Broker {
	tb.Helper()
	return parse(tb, os.Getenv("WARREN_TEST_BROKERS"), remedy, nil)
}

// Newest returns the first broker of All.
func Newest(tb TB) Broker {
	tb.Helper()
	return All(tb)[0]
}

// Certificates are PEM files: the certificate authority of the TLS brokers, and a client certificate that they accept.
type Certificates struct {
	CA, ClientCert, ClientKey []byte
}

// AllTLS returns the same brokers at their TLS ports from WARREN_TEST_TLS_BROKERS, and the certificates in WARREN_TEST_TLS_DIR.
func AllTLS(tb TB) ([]Broker, Certificates) {
	tb.Helper()
	directory := os.Getenv("WARREN_TEST_TLS_DIR")
	if directory == "" {
		tb.Fatal(remedyTLS)
	}
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(directory, name)) // the user chooses the directory
		if err != nil {
			tb.Fatalf("WARREN_TEST_TLS_DIR: %v", err)
		}
		return text
	}
	certificates := Certificates{CA: read("ca.crt"), ClientCert: read("client.crt"), ClientKey: read("client.key")}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(certificates.CA) {
		tb.Fatal("WARREN_TEST_TLS_DIR: ca.crt holds no certificate")
	}
	config := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return parse(tb, os.Getenv("WARREN_TEST_TLS_BROKERS"), remedyTLS, config), certificates
}

func parse(tb TB, list, remedy string, config *tls.Config) []Broker {
	tb.Helper()
	var all []Broker
	for pair := range strings.FieldsSeq(list) {
		amqp, management, _ := strings.Cut(pair, ",")
		broker := Broker{client: &http.Client{
			// RabbitMQ closes idle connections after a minute. A request must not be sent at that moment.
			Transport: &http.Transport{TLSClientConfig: config, IdleConnTimeout: 10 * time.Second},
			Timeout:   time.Minute,
		}, tls: config}
		broker.AMQPURI, _, _ = split(tb, amqp)
		broker.ManagementURI, broker.Username, broker.Password = split(tb, management)
		var overview struct {
			Version string `json:"rabbitmq_version"`
			Erlang  string `json:"erlang_version"`
		}
		broker.get(tb, &overview, "overview")
		broker.Version, broker.Erlang = overview.Version, overview.Erlang
		all = append(all, broker)
	}
	if len(all) == 0 {
		tb.Fatal(remedy)
	}
	return all
}

// split separates the credentials from a URI.
func split(tb TB, text string) (uri, username, password string) {
	tb.Helper()
	parsed, err := url.Parse(text)
	if err != nil || parsed.User == nil || parsed.Host == "" {
		tb.Fatal("WARREN_TEST_BROKERS: each entry is two URIs with user and password, separated by a comma")
	}
	password, _ = parsed.User.Password()
	return parsed.Scheme + "://" + parsed.Host, parsed.User.Username(), password
}

// User is an account for one test.
type User struct{ Username, Password string }

// NewUser creates a user with tags such as management, policymaker or administrator, without permissions in any vhost, and
// deletes it when the test ends.
func (b Broker) NewUser(tb TB, tags ...string) User {
	tb.Helper()
	user := User{Username: "test-user-" + random(), Password: rand.Text()}
	b.SetTags(tb, user, tags...)
	tb.Cleanup(func() { b.call(tb, http.MethodDelete, nil, "users", user.Username) })
	return user
}

// GrantEvents grants a user access to the broker's events, which the plugin publishes in vhost "/".
func (b Broker) GrantEvents(tb TB, user User) {
	tb.Helper()
	b.VHost(tb, "/").Grant(user, "^warren-link-", "^warren-link-", `^(warren-link-|amq\.rabbitmq\.event$)`)
}

// SetTags replaces the tags of a user and keeps the password.
func (b Broker) SetTags(tb TB, user User, tags ...string) {
	tb.Helper()
	b.call(tb, http.MethodPut, map[string]any{"password": user.Password, "tags": strings.Join(tags, ",")}, "users", user.Username)
}

// CountConnections returns the number of AMQP connections with a client-provided name. The management API updates it only seconds
// after a connection was opened or closed, so tests must poll it.
func (b Broker) CountConnections(tb TB, name string) int {
	tb.Helper()
	return len(b.connections(tb, name))
}

// CloseConnections closes the AMQP connections with a client-provided name at the broker, and returns how many it closed. The
// management API shows a connection only seconds after it was opened.
func (b Broker) CloseConnections(tb TB, name string) int {
	tb.Helper()
	found := b.connections(tb, name)
	for _, connection := range found {
		b.call(tb, http.MethodDelete, nil, "connections", connection)
	}
	return len(found)
}

// connections returns the broker's own names of the connections with a client-provided name.
func (b Broker) connections(tb TB, name string) []string {
	tb.Helper()
	var all []struct {
		Name       string
		Properties struct {
			Name string `json:"connection_name"`
		} `json:"client_properties"`
	}
	b.get(tb, &all, "connections")
	var found []string
	for _, connection := range all {
		if connection.Properties.Name == name {
			found = append(found, connection.Name)
		}
	}
	return found
}

func random() string { return rand.Text()[:12] }

func (b Broker) get(tb TB, result any, path ...string) {
	tb.Helper()
	if err := json.Unmarshal(b.call(tb, http.MethodGet, nil, path...), result); err != nil {
		tb.Fatalf("GET %v: %v", path, err)
	}
}

// call sends a request to the management API. Each element of path is a name, which call escapes. A missing connection or object
// counts as deleted.
func (b Broker) call(tb TB, method string, body any, path ...string) []byte {
	tb.Helper()
	var (
		status int
		answer []byte
		err    error
	)
	Persist(func() bool {
		status, answer, err = b.ask(method, body, path)
		return err == nil && status < http.StatusInternalServerError || method == http.MethodPost
	})
	gone := status == http.StatusNotFound && (method == http.MethodDelete || path[0] == "vhost-limits")
	if err != nil || status >= http.StatusMultipleChoices && !gone {
		tb.Fatalf("%s %v: %d %s %v", method, path, status, answer, err)
	}
	return answer
}

// Persist calls try until it returns true, for a limited time. A busy broker refuses requests, or does not answer within a minute.
func Persist(try func() (done bool)) {
	// Cleanups call this, so the test's context may have ended. The caller knows the result of the last try.
	_ = wait.PollUntilContextTimeout(context.Background(), time.Second, deadline.For(20*time.Second), true,
		func(context.Context) (bool, error) { return try(), nil })
}

// ask sends one request to the management API.
func (b Broker) ask(method string, body any, path []string) (status int, answer []byte, err error) {
	var uri strings.Builder
	uri.WriteString(b.ManagementURI + "/api")
	for _, name := range path {
		uri.WriteString("/" + strings.ReplaceAll(url.PathEscape(name), ".", "%2E"))
	}
	var content bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&content).Encode(body); err != nil {
			return 0, nil, err
		}
	}
	// Cleanups call this, so the test's context may have ended. The client has a timeout.
	request, err := http.NewRequestWithContext(context.Background(), method, uri.String(), &content)
	if err != nil {
		return 0, nil, err
	}
	request.SetBasicAuth(b.Username, b.Password)
	request.Header.Set("Content-Type", "application/json")
	if method != http.MethodPost {
		request.Header["Idempotency-Key"] = nil // not sent, but lets net/http retry on a connection that was just closed
	}
	response, err := b.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

// ClusterName returns the name of the broker's cluster.
func (b Broker) ClusterName(tb TB) string {
	tb.Helper()
	var cluster struct {
		Name string `json:"name"`
	}
	b.get(tb, &cluster, "cluster-name")
	return cluster.Name
}

// ClusterID returns the random ID that the cluster generated for itself.
func (b Broker) ClusterID(tb TB) string {
	tb.Helper()
	var parameters []struct {
		Name  string `json:"name"`
		Value any    `json:"value"`
	}
	b.get(tb, &parameters, "global-parameters")
	for _, parameter := range parameters {
		if id, ok := parameter.Value.(string); ok && parameter.Name == "internal_cluster_id" {
			return id
		}
	}
	tb.Fatalf("the broker has no internal_cluster_id")
	return ""
}
