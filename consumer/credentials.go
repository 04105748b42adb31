package consumer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/warren-mq/warren/consumer/contract"
)

// Credentials provide the address of the broker with user and password. They are read at each connect, so they may change.
type Credentials interface {
	// URI returns an AMQP URI, such as amqps://user:password@host:5671/vhost. It must return when ctx ends. An error fails the
	// connect, which is tried again.
	URI(ctx context.Context) (string, error)
}

// URI returns credentials that never change.
func URI(uri string) Credentials { return fixedURI(uri) }

type fixedURI string

func (u fixedURI) URI(context.Context) (string, error) { return string(u), nil }

// Dir returns credentials from files in a directory, in the layout of a service binding: either uri, or host with the optional
// files username, password, port (default 5672) and virtual-host (default "/"). With port 5671 the connection uses TLS.
func Dir(path string) Credentials { return folder(path) }

type folder string

func (f folder) URI(context.Context) (string, error) {
	if uri, err := f.read("uri"); err == nil {
		return uri, nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	host, err := f.read("host")
	if err != nil {
		return "", fmt.Errorf("credentials have neither a file uri nor a file host: %w", err)
	}
	port, vhost := "5672", "/"
	var username, password string
	for name, value := range map[string]*string{"port": &port, "virtual-host": &vhost, "username": &username, "password": &password} {
		text, err := f.read(name)
		switch {
		case err == nil:
			*value = text
		case !errors.Is(err, os.ErrNotExist):
			return "", err
		}
	}
	scheme := "amqp"
	if port == "5671" {
		scheme = "amqps"
	}
	uri := url.URL{Scheme: scheme, Host: net.JoinHostPort(host, port), Path: "/" + vhost, RawPath: "/" + url.PathEscape(vhost)}
	if username != "" {
		uri.User = url.UserPassword(username, password)
	}
	return uri.String(), nil
}

func (f folder) read(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(string(f), name))
	if err != nil {
		return "", fmt.Errorf("read credentials: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// Binding has what New needs: a Conn and a contract.
type Binding struct {
	Conn     *Conn
	Contract contract.Source
}

// contractFile is the name of the contract in a binding's directory.
const contractFile = "contract.json"

// LoadBinding loads the contract and the credentials of a queue from the directory $SERVICE_BINDING_ROOT/<name>. If that variable
// is not set, it uses WARREN_CONTRACT, which is a path or the JSON document itself, and AMQP_URL. It returns an error if a
// variable or the contract in the directory is missing, or if a document in WARREN_CONTRACT is not valid.
func LoadBinding(name string, options ...ConnOption) (*Binding, error) {
	if root := os.Getenv("SERVICE_BINDING_ROOT"); root != "" {
		path := filepath.Join(root, name)
		if _, err := os.Stat(filepath.Join(path, contractFile)); err != nil {
			return nil, fmt.Errorf("binding %q has no contract, mount the ConfigMap of spec.contract.configMap there: %w", name, err)
		}
		return &Binding{NewConn(Dir(path), options...), contract.File(filepath.Join(path, contractFile))}, nil
	}
	document, uri := os.Getenv("WARREN_CONTRACT"), os.Getenv("AMQP_URL")
	if document == "" || uri == "" {
		return nil, fmt.Errorf("binding %q: set SERVICE_BINDING_ROOT, or both WARREN_CONTRACT and AMQP_URL", name)
	}
	source := contract.Source(contract.File(document))
	if strings.HasPrefix(strings.TrimSpace(document), "{") {
		given, err := contract.Parse([]byte(document))
		if err != nil {
			return nil, fmt.Errorf("binding %q: WARREN_CONTRACT: %w", name, err)
		}
		source = given
	}
	return &Binding{NewConn(URI(uri), options...), source}, nil
}
