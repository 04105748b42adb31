package gitenv

import (
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/warren-mq/warren/api/v1alpha1"
	. "github.com/warren-mq/warren/test/testenv"
)

// Manifest returns the file of an object without a namespace, because the tool that delivers it sets the namespace.
func Manifest(apiVersion, kind, name string, content map[string]any) string {
	GinkgoHelper()
	content["apiVersion"], content["kind"], content["metadata"] = apiVersion, kind, map[string]any{"name": name}
	text, err := yaml.Marshal(content)
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// ConsumerQueue returns the file of a ConsumerQueue with a spec in YAML.
func ConsumerQueue(name, spec string) string {
	GinkgoHelper()
	content := map[string]any{}
	Expect(yaml.Unmarshal([]byte(spec), &content)).To(Succeed())
	return Manifest(v1alpha1.GroupVersion.String(), "ConsumerQueue", name, map[string]any{"spec": content})
}

// Access returns the files of the BrokerConnection and the Secret of a world, in a folder of the repository.
func Access(w *World, folder string) Files {
	GinkgoHelper()
	connection := Manifest(v1alpha1.GroupVersion.String(), "BrokerConnection", "default", map[string]any{
		"spec": map[string]any{"secretRef": map[string]any{"name": "rabbitmq"}, "vhost": w.VHost.Name, "resyncInterval": "1s"},
	})
	secret := Manifest("v1", "Secret", "rabbitmq", map[string]any{"stringData": map[string]string{
		"username": w.Broker.Username, "password": w.Broker.Password,
		"amqpURI": w.Broker.AMQPURI, "managementURI": w.Broker.ManagementURI,
	}})
	return Files{
		filepath.Join(folder, "secret.yaml"):           secret,
		filepath.Join(folder, "brokerconnection.yaml"): connection,
	}
}
