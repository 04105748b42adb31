package brokerconnection

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/conditions"
	"github.com/warren-mq/warren/internal/rabbit"
)

// IndexSecret indexes BrokerConnections by the names of the Secrets in their specs.
const IndexSecret = "secret"

// invalidConfig is why a BrokerConnection has no connection. A user must change something, usually the spec or the Secret.
type invalidConfig struct {
	reason, message string
}

func (u *invalidConfig) Error() string { return u.message }

// progress returns Reconciling while a Secret or a RabbitmqCluster is missing, because another controller may create it soon. It returns
// Stalled if only a user can fix the configuration, so that GitOps tools fail immediately instead of at their timeout.
func (u *invalidConfig) progress() conditions.Progress {
	switch u.reason {
	case v1alpha1.ReasonSecretInvalid, v1alpha1.ReasonInvalidSpec, v1alpha1.ReasonTooManyConnections:
		return conditions.Stalled
	}
	return conditions.Reconciling
}

var rabbitmqClusterKind = schema.GroupVersionKind{Group: "rabbitmq.com", Version: "v1beta1", Kind: "RabbitmqCluster"}

// configOf returns the configuration of a BrokerConnection and its Secrets. The error is an *invalidConfig if the user must
// change something. It reads Secrets from the API server each time, so that none is kept in memory.
func configOf(ctx context.Context, live client.Reader, bc *v1alpha1.BrokerConnection) (rabbit.Config, error) {
	secretName, err := credentialsSecret(ctx, live, bc)
	if err != nil {
		return rabbit.Config{}, err
	}
	secret, err := readSecret(ctx, live, bc.Namespace, secretName)
	if err != nil {
		return rabbit.Config{}, err
	}
	config, err := configFromSecret(bc.Spec, secretName, secret)
	if err != nil {
		return rabbit.Config{}, err
	}
	config.Owner = string(bc.UID)
	if err := addTLS(ctx, live, bc, &config); err != nil {
		return rabbit.Config{}, err
	}
	if err := config.Validate(); err != nil {
		return rabbit.Config{}, &invalidConfig{
			v1alpha1.ReasonSecretInvalid, fmt.Sprintf(
				"%v. Check the Secret of spec.secretRef or spec.clusterRef, and the Secrets in spec.tls", err),
		}
	}
	return config, nil
}

// credentialsSecret returns the name of the Secret with user and password.
func credentialsSecret(ctx context.Context, live client.Reader, bc *v1alpha1.BrokerConnection) (string, error) {
	switch {
	case bc.Spec.SecretRef != nil:
		return bc.Spec.SecretRef.Name, nil
	case bc.Spec.ClusterRef == nil: // only an object that bypassed validation has neither
		return "", &invalidConfig{v1alpha1.ReasonInvalidSpec, "neither spec.secretRef nor spec.clusterRef is given: set one"}
	}
	name := bc.Spec.ClusterRef.Name
	cluster := &unstructured.Unstructured{}
	cluster.SetGroupVersionKind(rabbitmqClusterKind)
	err := live.Get(ctx, client.ObjectKey{Namespace: bc.Namespace, Name: name}, cluster)
	switch {
	case meta.IsNoMatchError(err):
		return "", &invalidConfig{
			v1alpha1.ReasonClusterNotReady,
			"this Kubernetes cluster has no resource RabbitmqCluster (rabbitmq.com/v1beta1): " +
				"install the RabbitMQ cluster operator, or use spec.secretRef",
		}
	case apierrors.IsNotFound(err):
		return "", &invalidConfig{
			v1alpha1.ReasonClusterNotReady,
			fmt.Sprintf("RabbitmqCluster %q not found in namespace %q: create it, or name another in spec.clusterRef", name, bc.Namespace),
		}
	case err != nil:
		return "", fmt.Errorf("get RabbitmqCluster %q: %w", name, err)
	}
	secret, _, err := unstructured.NestedString(cluster.Object, "status", "defaultUser", "secretReference", "name")
	if err != nil || secret == "" {
		return "", &invalidConfig{
			v1alpha1.ReasonClusterNotReady,
			fmt.Sprintf("RabbitmqCluster %q has no status.defaultUser.secretReference yet: wait for its operator", name),
		}
	}
	return secret, nil
}

func readSecret(ctx context.Context, live client.Reader, namespace, name string) (map[string][]byte, error) {
	secret := &corev1.Secret{}
	err := live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, &invalidConfig{v1alpha1.ReasonSecretNotFound, fmt.Sprintf(
			"Secret %q not found in namespace %q: create it", name, namespace)}
	}
	if err != nil {
		return nil, fmt.Errorf("get Secret %q: %w", name, err)
	}
	return secret.Data, nil
}

// configFromSecret takes URIs from the spec, or else from the keys amqpURI and managementURI, or else from the keys of the default-user
// Secret of the RabbitMQ cluster operator. Its errors never quote a value.
func configFromSecret(spec v1alpha1.BrokerConnectionSpec, secretName string, data map[string][]byte) (rabbit.Config, error) {
	value := func(keys ...string) string {
		for _, key := range keys {
			if text := strings.TrimSpace(string(data[key])); text != "" {
				return text
			}
		}
		return ""
	}
	invalid := func(format string, args ...any) error {
		return &invalidConfig{v1alpha1.ReasonSecretInvalid, fmt.Sprintf("Secret %q ", secretName) + fmt.Sprintf(format, args...)}
	}
	resync, err := spec.ResyncInterval.Parse()
	if err != nil {
		return rabbit.Config{}, &invalidConfig{v1alpha1.ReasonInvalidSpec, "spec.resyncInterval: " + err.Error()}
	}
	config := rabbit.Config{
		Username: value("username"), Password: strings.TrimRight(string(data["password"]), "\r\n"),
		VHost: spec.VHost, ResyncInterval: resync,
	}
	amqpURI := cmp.Or(spec.AMQPURI, value("amqpURI"), value("connection_string"), hostURI(value("host"), value("port")))
	if amqpURI == "" {
		return rabbit.Config{}, invalid("has neither amqpURI nor host: add the key amqpURI (amqp://host:port), or set spec.amqpURI")
	}
	amqp, err := withoutUser(amqpURI, "amqp", &config)
	switch {
	case err != nil && spec.AMQPURI != "":
		return rabbit.Config{}, &invalidConfig{v1alpha1.ReasonInvalidSpec, "spec.amqpURI cannot be used: " + err.Error()}
	case err != nil:
		return rabbit.Config{}, invalid("holds no usable AMQP address: %v", err)
	}
	management, err := withoutUser(cmp.Or(spec.ManagementURI, value("managementURI", "uri"), managementURI(amqp)), "http", &config)
	switch {
	case err != nil && spec.ManagementURI != "":
		return rabbit.Config{}, &invalidConfig{v1alpha1.ReasonInvalidSpec, "spec.managementURI cannot be used: " + err.Error()}
	case err != nil:
		return rabbit.Config{}, invalid("holds no usable address of the management API: %v", err)
	}
	config.AMQPURI, config.ManagementURI = amqp.String(), management.String()
	switch {
	case config.Username == "" && config.Password == "":
		return rabbit.Config{}, invalid("lacks the keys username and password: add them")
	case config.Username == "":
		return rabbit.Config{}, invalid("lacks the key username: add it")
	case config.Password == "":
		return rabbit.Config{}, invalid("lacks the key password: add it")
	}
	return config, nil
}

func hostURI(host, port string) string {
	if host == "" {
		return ""
	}
	scheme := "amqp"
	if port == "5671" {
		scheme = "amqps"
	}
	return scheme + "://" + net.JoinHostPort(strings.Trim(host, "[]"), cmp.Or(port, "5672"))
}

// managementURI returns the usual address of the management API of a broker.
func managementURI(amqp *url.URL) string {
	if amqp.Scheme == "amqps" {
		return "https://" + net.JoinHostPort(amqp.Hostname(), "15671")
	}
	return "http://" + net.JoinHostPort(amqp.Hostname(), "15672")
}

// maxHostLength is the limit of a host name in DNS (RFC 1035). Longer names do not fit into the status.
const maxHostLength = 253

// withoutUser parses a URI. It moves user and password into a configuration that has none. It drops the path of an AMQP URI, because
// the vhost is spec.vhost. The scheme may end with s, for TLS.
//
// It refuses a URI with an @ after the host: the parsed host is then part of a password with a /, ? or #.
func withoutUser(text, scheme string, config *rabbit.Config) (*url.URL, error) {
	uri, err := url.Parse(text)
	if err != nil || (uri.Scheme != scheme && uri.Scheme != scheme+"s") || uri.Hostname() == "" {
		return nil, fmt.Errorf("want %s://host:port or %ss://host:port", scheme, scheme)
	}
	if len(uri.Hostname()) > maxHostLength {
		return nil, fmt.Errorf("the host has %d characters, but at most %d are allowed", len(uri.Hostname()), maxHostLength)
	}
	if strings.Contains(uri.EscapedPath()+uri.RawQuery+uri.EscapedFragment(), "@") {
		return nil, errors.New("its user and password must be percent-encoded")
	}
	if uri.User != nil {
		password, _ := uri.User.Password()
		config.Username = cmp.Or(config.Username, uri.User.Username())
		config.Password = cmp.Or(config.Password, password)
	}
	uri.User, uri.RawQuery, uri.Fragment = nil, "", ""
	if scheme == "amqp" {
		uri.Path, uri.RawPath = "", ""
	}
	return uri, nil
}

func addTLS(ctx context.Context, live client.Reader, bc *v1alpha1.BrokerConnection, config *rabbit.Config) error {
	if bc.Spec.TLS == nil {
		return nil
	}
	config.ServerName = bc.Spec.TLS.ServerName
	config.InsecureSkipVerify = bc.Spec.TLS.InsecureSkipVerify
	type part struct {
		key  string
		into *[]byte
	}
	for _, secret := range []struct {
		ref   *v1alpha1.LocalObjectReference
		parts []part
	}{
		{bc.Spec.TLS.CASecretRef, []part{{"ca.crt", &config.CA}}},
		// Read together, because a certificate and a key of two versions would not match.
		{bc.Spec.TLS.ClientSecretRef, []part{{corev1.TLSCertKey, &config.ClientCert}, {corev1.TLSPrivateKeyKey, &config.ClientKey}}},
	} {
		if secret.ref == nil {
			continue
		}
		data, err := readSecret(ctx, live, bc.Namespace, secret.ref.Name)
		if err != nil {
			return err
		}
		for _, part := range secret.parts {
			*part.into = data[part.key]
			if len(*part.into) == 0 {
				return &invalidConfig{v1alpha1.ReasonSecretInvalid, fmt.Sprintf(
					"Secret %q lacks the key %s: add it", secret.ref.Name, part.key)}
			}
		}
	}
	return nil
}

// referencedSecrets returns the Secrets that a spec names. It leaves out the Secret of a RabbitmqCluster.
func referencedSecrets(bc *v1alpha1.BrokerConnection) []string {
	refs := []*v1alpha1.LocalObjectReference{bc.Spec.SecretRef}
	if bc.Spec.TLS != nil {
		refs = append(refs, bc.Spec.TLS.CASecretRef, bc.Spec.TLS.ClientSecretRef)
	}
	var names []string
	for _, ref := range refs {
		if ref != nil {
			names = append(names, ref.Name)
		}
	}
	return names
}

// AddIndexes adds the index of BrokerConnections by Secret.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &v1alpha1.BrokerConnection{}, IndexSecret, func(object client.Object) []string {
		return referencedSecrets(object.(*v1alpha1.BrokerConnection))
	})
}
