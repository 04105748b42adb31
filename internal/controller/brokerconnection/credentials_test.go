package brokerconnection

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/warren-mq/warren/api/v1alpha1"
	"github.com/warren-mq/warren/internal/controller/brokers"
	"github.com/warren-mq/warren/internal/controller/controllertest"
	"github.com/warren-mq/warren/internal/rabbit"
	"github.com/warren-mq/warren/internal/topology/topologytest"
)

// configured holds the fields of a rabbit.Config that come from the credentials.
type configured struct{ amqp, management, username, password string }

// For each address the first value that is set counts: the spec first, then the keys of the Secret in their order.
func TestConfigFromSecret(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec   v1alpha1.BrokerConnectionSpec
		secret map[string]string
		want   configured
	}{
		"both URIs": {
			secret: map[string]string{"username": "bob", "password": controllertest.Password, "amqpURI": "amqp://mq:5673", "managementURI": "http://admin:8080"},
			want:   configured{"amqp://mq:5673", "http://admin:8080", "bob", controllertest.Password},
		},
		"uri is an alias of managementURI": {
			secret: map[string]string{"username": "bob", "password": controllertest.Password, "amqpURI": "amqp://mq", "uri": "https://admin"},
			want:   configured{"amqp://mq", "https://admin", "bob", controllertest.Password},
		},
		"managementURI before uri": {
			secret: map[string]string{"username": "bob", "password": controllertest.Password, "amqpURI": "amqp://mq", "uri": "http://b", "managementURI": "http://a"},
			want:   configured{"amqp://mq", "http://a", "bob", controllertest.Password},
		},
		"the management API follows from the AMQP URI, with port 15672": {
			secret: map[string]string{"username": "bob", "password": controllertest.Password, "amqpURI": "amqp://mq:5673"},
			want:   configured{"amqp://mq:5673", "http://mq:15672", "bob", controllertest.Password},
		},
		"the management API follows from the AMQPS URI, with port 15671": {
			secret: map[string]string{"username": "bob", "password": controllertest.Password, "amqpURI": "amqps://mq"},
			want:   configured{"amqps://mq", "https://mq:15671", "bob", controllertest.Password},
		},
		"a path of the management URI is kept, and the path of an AMQP URI is ignored": {
			secret: map[string]string{
				"username": "bob", "password": controllertest.Password,
				"amqpURI": "amqp://mq/my%40vhost?heartbeat=10#x", "managementURI": "https://gate/rabbit/a%2Fb?x=1#y",
			},
			want: configured{"amqp://mq", "https://gate/rabbit/a%2Fb", "bob", controllertest.Password},
		},
		"the default-user Secret of the RabbitMQ cluster operator": {
			secret: map[string]string{
				"username": "default_user_x", "password": controllertest.Password, "host": "rabbit.shop.svc", "port": "5672", "provider": "rabbitmq", "type": "rabbitmq",
				"connection_string": "amqp://default_user_x:" + controllertest.Password + "@rabbit.shop.svc:5672/", "default_user.conf": "default_pass = " + controllertest.Password,
			},
			want: configured{"amqp://rabbit.shop.svc:5672", "http://rabbit.shop.svc:15672", "default_user_x", controllertest.Password},
		},
		"the default-user Secret with TLS": {
			secret: map[string]string{
				"username": "default_user_x", "password": controllertest.Password, "host": "rabbit.shop.svc", "port": "5671",
				"connection_string": "amqps://default_user_x:" + controllertest.Password + "@rabbit.shop.svc:5671/",
			},
			want: configured{"amqps://rabbit.shop.svc:5671", "https://rabbit.shop.svc:15671", "default_user_x", controllertest.Password},
		},
		"the default-user Secret of an older operator": {
			secret: map[string]string{"username": "u", "password": controllertest.Password, "host": "rabbit.shop.svc", "port": "5671"},
			want:   configured{"amqps://rabbit.shop.svc:5671", "https://rabbit.shop.svc:15671", "u", controllertest.Password},
		},
		"a host without a port uses 5672": {
			secret: map[string]string{"username": "u", "password": controllertest.Password, "host": "mq"},
			want:   configured{"amqp://mq:5672", "http://mq:15672", "u", controllertest.Password},
		},
		"an IPv6 host": {
			secret: map[string]string{"username": "u", "password": controllertest.Password, "host": "fd00::1", "port": "5671"},
			want:   configured{"amqps://[fd00::1]:5671", "https://[fd00::1]:15671", "u", controllertest.Password},
		},
		"an IPv6 host in brackets": {
			secret: map[string]string{"username": "u", "password": controllertest.Password, "host": "[fd00::1]"},
			want:   configured{"amqp://[fd00::1]:5672", "http://[fd00::1]:15672", "u", controllertest.Password},
		},
		"an IPv6 host in a URI": {
			secret: map[string]string{"username": "u", "password": controllertest.Password, "amqpURI": "amqp://[fd00::1]"},
			want:   configured{"amqp://[fd00::1]", "http://[fd00::1]:15672", "u", controllertest.Password},
		},
		"user and password of a connection_string": {
			secret: map[string]string{"connection_string": "amqp://bob:p%40ss%2Fw%25rd@mq:5672/%2F"},
			want:   configured{"amqp://mq:5672", "http://mq:15672", "bob", "p@ss/w%rd"},
		},
		"user and password of an AMQP URI": {
			secret: map[string]string{"amqpURI": "amqps://bob:" + controllertest.Password + "@mq", "managementURI": "https://eve:other@mq:15671/"},
			want:   configured{"amqps://mq", "https://mq:15671/", "bob", controllertest.Password},
		},
		"user and password of the management URI": {
			secret: map[string]string{"amqpURI": "amqp://mq", "managementURI": "http://bob:" + controllertest.Password + "@mq:15672"},
			want:   configured{"amqp://mq", "http://mq:15672", "bob", controllertest.Password},
		},
		"the keys username and password before the URIs": {
			secret: map[string]string{"username": "bob", "password": controllertest.Password, "amqpURI": "amqp://eve:other@mq"},
			want:   configured{"amqp://mq", "http://mq:15672", "bob", controllertest.Password},
		},
		"the spec overrides both URIs": {
			spec:   v1alpha1.BrokerConnectionSpec{AMQPURI: "amqps://here:1", ManagementURI: "https://there/prefix"},
			secret: map[string]string{"username": "bob", "password": controllertest.Password, "amqpURI": "amqp://mq", "managementURI": "http://mq"},
			want:   configured{"amqps://here:1", "https://there/prefix", "bob", controllertest.Password},
		},
		"the management API follows from the AMQP URI of the spec": {
			spec:   v1alpha1.BrokerConnectionSpec{AMQPURI: "amqps://here:1"},
			secret: map[string]string{"username": "bob", "password": controllertest.Password, "host": "mq"},
			want:   configured{"amqps://here:1", "https://here:15671", "bob", controllertest.Password},
		},
		"the spec adds the address to a Secret with user and password only": {
			spec:   v1alpha1.BrokerConnectionSpec{AMQPURI: "amqp://here"},
			secret: map[string]string{"username": "bob", "password": controllertest.Password},
			want:   configured{"amqp://here", "http://here:15672", "bob", controllertest.Password},
		},
		"newlines at the end of values are trimmed": {
			secret: map[string]string{"username": "bob\n", "password": controllertest.Password + "\r\n", "amqpURI": " amqp://mq\n", "managementURI": "http://mq\n"},
			want:   configured{"amqp://mq", "http://mq", "bob", controllertest.Password},
		},
		"blanks in a password are kept": {
			secret: map[string]string{"username": "bob", "password": " a b \t", "amqpURI": "amqp://mq"},
			want:   configured{"amqp://mq", "http://mq:15672", "bob", " a b \t"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.spec.VHost, test.spec.ResyncInterval = "orders", "90s"
			config, err := configFromSecret(test.spec, "broker", bytesOf(test.secret))
			if err != nil {
				t.Fatal(err)
			}
			topologytest.Equal(t, "configuration", rabbit.Config{
				AMQPURI: test.want.amqp, ManagementURI: test.want.management, Username: test.want.username, Password: test.want.password,
				VHost: "orders", ResyncInterval: 90 * time.Second,
			}, config)
			if err := config.Validate(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestConfigFromSecretRefuses(t *testing.T) {
	t.Parallel()
	const (
		noAMQP       = `Secret "broker" holds no usable AMQP address: want amqp://host:port or amqps://host:port`
		noManagement = `Secret "broker" holds no usable address of the management API: want http://host:port or https://host:port`
		notEncoded   = `Secret "broker" holds no usable AMQP address: its user and password must be percent-encoded`
	)
	credentials := func(more ...string) map[string]string {
		secret := map[string]string{"username": "bob", "password": controllertest.Password}
		for i := 0; i < len(more); i += 2 {
			secret[more[i]] = more[i+1]
		}
		return secret
	}
	for name, test := range map[string]struct {
		spec    v1alpha1.BrokerConnectionSpec
		secret  map[string]string
		reason  string
		message string
	}{
		"an empty Secret": {
			reason:  v1alpha1.ReasonSecretInvalid,
			message: `Secret "broker" has neither amqpURI nor host: add the key amqpURI (amqp://host:port), or set spec.amqpURI`,
		},
		"blank keys": {
			secret: map[string]string{"amqpURI": " ", "host": "\n"}, reason: v1alpha1.ReasonSecretInvalid,
			message: `Secret "broker" has neither amqpURI nor host: add the key amqpURI (amqp://host:port), or set spec.amqpURI`,
		},
		"no user": {
			secret: map[string]string{"password": controllertest.Password, "host": "mq"}, reason: v1alpha1.ReasonSecretInvalid,
			message: `Secret "broker" lacks the key username: add it`,
		},
		"no password": {
			secret: map[string]string{"username": "bob", "password": "\n", "host": "mq"}, reason: v1alpha1.ReasonSecretInvalid,
			message: `Secret "broker" lacks the key password: add it`,
		},
		"neither": {
			secret: map[string]string{"host": "mq"}, reason: v1alpha1.ReasonSecretInvalid,
			message: `Secret "broker" lacks the keys username and password: add them`,
		},
		"an AMQP URI without a scheme":         {secret: credentials("amqpURI", "mq:5672"), reason: v1alpha1.ReasonSecretInvalid, message: noAMQP},
		"an AMQP URI without a host":           {secret: credentials("amqpURI", "amqp://:5672"), reason: v1alpha1.ReasonSecretInvalid, message: noAMQP},
		"an AMQP URI of another scheme":        {secret: credentials("amqpURI", "http://mq:5672"), reason: v1alpha1.ReasonSecretInvalid, message: noAMQP},
		"an AMQP URI that does not parse":      {secret: credentials("amqpURI", "amqp://"+controllertest.Password+"%zz@mq"), reason: v1alpha1.ReasonSecretInvalid, message: noAMQP},
		"an invalid host":                      {secret: credentials("host", controllertest.Password+" %"), reason: v1alpha1.ReasonSecretInvalid, message: noAMQP},
		"an invalid port":                      {secret: credentials("host", "mq", "port", controllertest.Password), reason: v1alpha1.ReasonSecretInvalid, message: noAMQP},
		"a management URI without a scheme":    {secret: credentials("host", "mq", "uri", "mq:15672"), reason: v1alpha1.ReasonSecretInvalid, message: noManagement},
		"a management URI of another scheme":   {secret: credentials("host", "mq", "uri", "amqp://bob:"+controllertest.Password+"@mq"), reason: v1alpha1.ReasonSecretInvalid, message: noManagement},
		"a password with an unencoded #":       {secret: map[string]string{"connection_string": "amqp://bob:a@b#" + controllertest.Password + "@mq"}, reason: v1alpha1.ReasonSecretInvalid, message: notEncoded},
		"a password with an unencoded /":       {secret: map[string]string{"connection_string": "amqp://bob:12/" + controllertest.Password + "@mq"}, reason: v1alpha1.ReasonSecretInvalid, message: notEncoded},
		"a password with an unencoded ?":       {secret: map[string]string{"connection_string": "amqp://bob:12?" + controllertest.Password + "@mq"}, reason: v1alpha1.ReasonSecretInvalid, message: notEncoded},
		"a password with an unencoded percent": {secret: map[string]string{"connection_string": "amqp://bob:100%" + controllertest.Password + "@mq"}, reason: v1alpha1.ReasonSecretInvalid, message: noAMQP},
		"a host that is too long": {
			secret: credentials("amqpURI", "amqp://"+strings.Repeat("m", 254)+":5672"), reason: v1alpha1.ReasonSecretInvalid,
			message: `Secret "broker" holds no usable AMQP address: the host has 254 characters, but at most 253 are allowed`,
		},
		"an AMQP URI in the spec that does not parse": {
			spec: v1alpha1.BrokerConnectionSpec{AMQPURI: "amqp://[::1"}, secret: credentials(), reason: v1alpha1.ReasonInvalidSpec,
			message: "spec.amqpURI cannot be used: want amqp://host:port or amqps://host:port",
		},
		"a management URI in the spec that does not parse": {
			spec: v1alpha1.BrokerConnectionSpec{ManagementURI: "http://mq:port"}, secret: credentials("host", "mq"), reason: v1alpha1.ReasonInvalidSpec,
			message: "spec.managementURI cannot be used: want http://host:port or https://host:port",
		},
		"an interval that does not parse": {
			spec: v1alpha1.BrokerConnectionSpec{ResyncInterval: "1 day"}, secret: credentials("host", "mq"), reason: v1alpha1.ReasonInvalidSpec,
			message: `spec.resyncInterval: duration "1 day": must be integers with d, h, m, s, ms in that order, such as 14d, 1h30m or 90s`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.spec.ResyncInterval == "" {
				test.spec.ResyncInterval = "30s"
			}
			config, err := configFromSecret(test.spec, "broker", bytesOf(test.secret))
			problem, ok := errors.AsType[*invalidConfig](err)
			if !ok {
				t.Fatalf("error is %v", err)
			}
			topologytest.Equal(t, "reason", test.reason, problem.reason)
			topologytest.Equal(t, "message", test.message, problem.Error())
			topologytest.Equal(t, "configuration", rabbit.Config{}, config)
		})
	}
}

func bytesOf(secret map[string]string) map[string][]byte {
	data := map[string][]byte{}
	for key, text := range secret {
		data[key] = []byte(text)
	}
	return data
}

// For any Secret, configFromSecret neither panics nor shows the password in an error or in the printed configuration. The URIs
// of an accepted configuration contain no credentials.
func FuzzConfigFromSecret(f *testing.F) {
	f.Add("bob", "amqp://mq:5672", "http://mq:15672", "mq", "5672")
	f.Add("", "amqp://bob:"+controllertest.Password+"@mq/%2F", "", "", "")
	f.Add("bob", "amqp://bob:"+controllertest.Password+"#@mq", "http://bob:"+controllertest.Password+"@[fd00::1]/x", "fd00::1", "5671")
	f.Add("bob", "", "", controllertest.Password, controllertest.Password)
	f.Add("bob", "amqp://"+controllertest.Password+"%zz", controllertest.Password, "", "")
	f.Fuzz(func(t *testing.T, username, amqpURI, managementURI, host, port string) {
		secret := map[string]string{
			"username": username, "password": controllertest.Password, "amqpURI": amqpURI, "managementURI": managementURI, "host": host, "port": port,
		}
		config, err := configFromSecret(v1alpha1.BrokerConnectionSpec{VHost: "/", ResyncInterval: "30s"}, "broker", bytesOf(secret))
		if err == nil {
			err = config.Validate()
		}
		if err != nil {
			if strings.Contains(err.Error(), controllertest.Password) {
				t.Errorf("the error shows the password: %v", err)
			}
			return
		}
		if config.Password != controllertest.Password || config.Username == "" {
			t.Errorf("user %q with password %q", config.Username, config.Password)
		}
		for _, uri := range []string{config.AMQPURI, config.ManagementURI} {
			if strings.Contains(uri, "@") {
				t.Errorf("credentials are left in %q", uri)
			}
		}
	})
}

func TestConfigOf(t *testing.T) {
	t.Parallel()
	secret := func(name string, data map[string]string) client.Object {
		object := &corev1.Secret{Data: bytesOf(data)}
		object.Namespace, object.Name = "shop", name
		return object
	}
	cluster := func(status map[string]any) client.Object {
		object := &unstructured.Unstructured{Object: map[string]any{"status": status}}
		object.SetGroupVersionKind(rabbitmqClusterKind)
		object.SetNamespace("shop")
		object.SetName("rabbit")
		return object
	}
	ofSecret := v1alpha1.BrokerConnectionSpec{SecretRef: &v1alpha1.LocalObjectReference{Name: "broker"}}
	ofCluster := v1alpha1.BrokerConnectionSpec{ClusterRef: &v1alpha1.LocalObjectReference{Name: "rabbit"}}
	withTLS := func(tls v1alpha1.TLSSpec) v1alpha1.BrokerConnectionSpec {
		spec := ofSecret
		spec.TLS = &tls
		return spec
	}
	reference := func(name string) *v1alpha1.LocalObjectReference { return &v1alpha1.LocalObjectReference{Name: name} }
	usable := secret("broker", map[string]string{"username": "bob", "password": controllertest.Password, "host": "mq"})
	down := errors.New("the API server is down")
	for name, test := range map[string]struct {
		spec    v1alpha1.BrokerConnectionSpec
		objects []client.Object
		get     error
		reason  string
		message string
	}{
		"no Secret": {
			spec: ofSecret, reason: v1alpha1.ReasonSecretNotFound, message: `Secret "broker" not found in namespace "shop": create it`,
		},
		"a Secret that lacks a key": {
			spec: ofSecret, objects: []client.Object{secret("broker", nil)}, reason: v1alpha1.ReasonSecretInvalid,
			message: `Secret "broker" has neither amqpURI nor host: add the key amqpURI (amqp://host:port), or set spec.amqpURI`,
		},
		"a Secret that cannot be read": {
			spec: ofSecret, get: down, message: `get Secret "broker": the API server is down`,
		},
		"a RabbitmqCluster that cannot be read": {
			spec: ofCluster, get: down, message: `get RabbitmqCluster "rabbit": the API server is down`,
		},
		"no CustomResourceDefinition of RabbitmqCluster": {
			spec: ofCluster, get: &meta.NoKindMatchError{GroupKind: rabbitmqClusterKind.GroupKind()}, reason: v1alpha1.ReasonClusterNotReady,
			message: "this Kubernetes cluster has no resource RabbitmqCluster (rabbitmq.com/v1beta1): install the RabbitMQ cluster operator, or use spec.secretRef",
		},
		"no RabbitmqCluster": {
			spec: ofCluster, reason: v1alpha1.ReasonClusterNotReady,
			message: `RabbitmqCluster "rabbit" not found in namespace "shop": create it, or name another in spec.clusterRef`,
		},
		"a RabbitmqCluster without a default user": {
			spec: ofCluster, objects: []client.Object{cluster(map[string]any{})}, reason: v1alpha1.ReasonClusterNotReady,
			message: `RabbitmqCluster "rabbit" has no status.defaultUser.secretReference yet: wait for its operator`,
		},
		"a RabbitmqCluster with another type of defaultUser": {
			spec: ofCluster, objects: []client.Object{cluster(map[string]any{"defaultUser": "bob"})}, reason: v1alpha1.ReasonClusterNotReady,
			message: `RabbitmqCluster "rabbit" has no status.defaultUser.secretReference yet: wait for its operator`,
		},
		"the Secret of a RabbitmqCluster is missing": {
			spec: ofCluster, reason: v1alpha1.ReasonSecretNotFound, message: `Secret "broker" not found in namespace "shop": create it`,
			objects: []client.Object{cluster(map[string]any{"defaultUser": map[string]any{"secretReference": map[string]any{"name": "broker"}}})},
		},
		"the Secret of a RabbitmqCluster exists": {
			spec: ofCluster,
			objects: []client.Object{
				usable, cluster(map[string]any{"defaultUser": map[string]any{"secretReference": map[string]any{"name": "broker"}}}),
			},
		},
		"the Secret of the CA is missing": {
			spec: withTLS(v1alpha1.TLSSpec{CASecretRef: reference("ca")}), objects: []client.Object{usable},
			reason: v1alpha1.ReasonSecretNotFound, message: `Secret "ca" not found in namespace "shop": create it`,
		},
		"the Secret of the CA lacks its key": {
			spec: withTLS(v1alpha1.TLSSpec{CASecretRef: reference("ca")}), objects: []client.Object{usable, secret("ca", map[string]string{"tls.crt": "x"})},
			reason: v1alpha1.ReasonSecretInvalid, message: `Secret "ca" lacks the key ca.crt: add it`,
		},
		"an invalid CA": {
			spec: withTLS(v1alpha1.TLSSpec{CASecretRef: reference("ca")}), objects: []client.Object{usable, secret("ca", map[string]string{"ca.crt": controllertest.Password})},
			reason: v1alpha1.ReasonSecretInvalid, message: "the CA bundle holds no PEM certificate. Check the Secret of spec.secretRef or spec.clusterRef, and the Secrets in spec.tls",
		},
		"a client certificate without a key": {
			spec: withTLS(v1alpha1.TLSSpec{ClientSecretRef: reference("me")}), objects: []client.Object{usable, secret("me", map[string]string{"tls.crt": "x"})},
			reason: v1alpha1.ReasonSecretInvalid, message: `Secret "me" lacks the key tls.key: add it`,
		},
		"an invalid client certificate": {
			spec:    withTLS(v1alpha1.TLSSpec{ClientSecretRef: reference("me")}),
			objects: []client.Object{usable, secret("me", map[string]string{"tls.crt": controllertest.Password, "tls.key": controllertest.Password})},
			reason:  v1alpha1.ReasonSecretInvalid, message: "the client certificate and key: tls: failed to find any PEM data in certificate input. Check the Secret of spec.secretRef or spec.clusterRef, and the Secrets in spec.tls",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			builder := controllertest.ClientBuilder(t, []controllertest.AddIndexes{brokers.AddIndexes, AddIndexes}, test.objects...)
			if test.get != nil {
				builder.WithInterceptorFuncs(interceptor.Funcs{
					Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
						return test.get
					},
				})
			}
			bc := controllertest.BrokerConnection(test.spec)
			config, err := configOf(t.Context(), builder.Build(), bc)
			if test.message == "" {
				topologytest.Equal(t, "error", nil, err)
				topologytest.Equal(t, "AMQP URI", "amqp://mq:5672", config.AMQPURI)
				return
			}
			if err == nil {
				t.Fatal("no error")
			}
			topologytest.Equal(t, "message", test.message, err.Error())
			problem, _ := errors.AsType[*invalidConfig](err)
			if problem == nil {
				problem = &invalidConfig{}
			}
			topologytest.Equal(t, "reason", test.reason, problem.reason)
			topologytest.Equal(t, "configuration", rabbit.Config{}, config)
		})
	}
}

// A certificate and its key are read from the same version of their Secret: each Secret is read once.
func TestAddTLS(t *testing.T) {
	t.Parallel()
	objects := []client.Object{&corev1.Secret{}, &corev1.Secret{}}
	for i, name := range []string{"ca", "me"} {
		objects[i].SetNamespace("shop")
		objects[i].SetName(name)
	}
	objects[0].(*corev1.Secret).Data = bytesOf(map[string]string{"ca.crt": "the CA"})
	objects[1].(*corev1.Secret).Data = bytesOf(map[string]string{"tls.crt": "the certificate", "tls.key": "the key"})
	reads := map[string]int{}
	reader := controllertest.ClientBuilder(t, []controllertest.AddIndexes{brokers.AddIndexes, AddIndexes}, objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			reads[key.Name]++
			return c.Get(ctx, key, object, options...)
		},
	}).Build()
	config := rabbit.Config{}
	err := addTLS(t.Context(), reader, controllertest.BrokerConnection(v1alpha1.BrokerConnectionSpec{TLS: &v1alpha1.TLSSpec{
		CASecretRef: &v1alpha1.LocalObjectReference{Name: "ca"}, ClientSecretRef: &v1alpha1.LocalObjectReference{Name: "me"},
		ServerName: "mq.example.com", InsecureSkipVerify: true,
	}}), &config)
	topologytest.Equal(t, "error", nil, err)
	topologytest.Equal(t, "configuration", rabbit.Config{
		CA: []byte("the CA"), ClientCert: []byte("the certificate"), ClientKey: []byte("the key"),
		ServerName: "mq.example.com", InsecureSkipVerify: true,
	}, config)
	topologytest.Equal(t, "reads", map[string]int{"ca": 1, "me": 1}, reads)
}

func TestConnectionsOfSecret(t *testing.T) {
	t.Parallel()
	reference := func(name string) *v1alpha1.LocalObjectReference { return &v1alpha1.LocalObjectReference{Name: name} }
	connection := func(namespace, name string, spec v1alpha1.BrokerConnectionSpec) client.Object {
		bc := controllertest.BrokerConnection(spec)
		bc.Namespace, bc.Name = namespace, name
		return bc
	}
	r := &Reconciler{client: controllertest.Client(t, []controllertest.AddIndexes{brokers.AddIndexes, AddIndexes},
		connection("shop", "credentials", v1alpha1.BrokerConnectionSpec{SecretRef: reference("a")}),
		connection("shop", "ca", v1alpha1.BrokerConnectionSpec{SecretRef: reference("b"), TLS: &v1alpha1.TLSSpec{CASecretRef: reference("a")}}),
		connection("shop", "client", v1alpha1.BrokerConnectionSpec{SecretRef: reference("b"), TLS: &v1alpha1.TLSSpec{ClientSecretRef: reference("a")}}),
		connection("shop", "cluster", v1alpha1.BrokerConnectionSpec{ClusterRef: &v1alpha1.LocalObjectReference{Name: "a"}}),
		connection("elsewhere", "credentials", v1alpha1.BrokerConnectionSpec{SecretRef: reference("a")}),
	)}
	for secret, want := range map[string][]string{"a": {"ca", "client", "credentials"}, "b": {"ca", "client"}, "c": {}} {
		object := &corev1.Secret{}
		object.Namespace, object.Name = "shop", secret
		got := []string{}
		for _, request := range r.connectionsOfSecret(t.Context(), object) {
			topologytest.Equal(t, "namespace", "shop", request.Namespace)
			got = append(got, request.Name)
		}
		topologytest.Equal(t, "connections of Secret "+secret, want, got)
	}
	topologytest.Equal(t, "without an index", nil, (&Reconciler{client: controllertest.BrokenClient(t)}).connectionsOfSecret(t.Context(), &corev1.Secret{}))
}
