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

// Credentials say where the broker is, and who connects. They are read at each connect, so that a password can change.
type Credentials interface {
	// URI returns an AMQP URI, such as amqps://user:password@host:5671/vhost, before ctx ends. It may ask a server, as for a token.
	URI(ctx context.Context) (string, error)
}

// URI are credentials that do not change.
func URI(uri string) Credentials { return fixedURI(uri) }

type fixedURI string

func (u fixedURI) URI(context.Context) (string, error) { return string(u), nil }

// Dir are credentials in the files of a folder, as service bindings are mounted: uri, or host with username, password, port and
// virtual-host.
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
		return "", fmt.Errorf("credentials: neither file uri nor file host: %w", err)
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
		return "", fmt.Errorf("credentials: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// Binding is what a binding holds.
type Binding struct {
	Conn     *Conn
	Contract contract.Source
}

// contractFile is the name of the contract in a binding.
const contractFile = "contract.json"

// LoadBinding finds the contract and the credentials of a queue in the folder $SERVICE_BINDING_ROOT/<name>. Without that variable, it takes
// them from WARREN_CONTRACT, which is a path or the JSON document itself, and AMQP_URL.
func LoadBinding(name string, options ...ConnOption) (*Binding, error) {
	if root := os.Getenv("SERVICE_BINDING_ROOT"); root != "" {
		path := filepath.Join(root, name)
		if _, err := os.Stat(filepath.Join(path, contractFile)); err != nil {
			return nil, fmt.Errorf("binding %q: %w: mount the ConfigMap of spec.contract.configMap there", name, err)
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
