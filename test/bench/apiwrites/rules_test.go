package apiwrites

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"sigs.k8s.io/yaml"
)

// What the API server lets a rule cost, and all rules of a write together; see k8s.io/apiserver/pkg/apis/cel.
const (
	ruleBudget  = 1_000_000
	writeBudget = 10_000_000
)

// BenchmarkRules runs the validation rules of a ConsumerQueue as the API server does for each write, in this process.
func BenchmarkRules(b *testing.B) {
	structural := readSchema(b)
	rules := cel.NewValidator(structural, true, ruleBudget)
	for name, spec := range map[string]string{
		"plain":       `{}`,
		"six objects": sixObjects,
		"shared": `{queue: {name: orders}, bindings: [{exchange: {name: shop, type: topic}, routingKeys: [order.placed]}],
			retry: {exchange: {name: retry}, delayTiers: [{delay: 30s}, {delay: 5m}]},
			deadLetter: {exchange: {name: dead, type: direct}, routingKey: orders, queue: {name: graveyard}}}`,
	} {
		b.Run(name, func(b *testing.B) {
			resource := map[string]any{}
			text := fmt.Sprintf("{metadata: {name: orders, namespace: shop}, spec: %s}", spec)
			if err := yaml.Unmarshal([]byte(text), &resource); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if refused, _ := rules.Validate(b.Context(), nil, structural, resource, resource, writeBudget); len(refused) > 0 {
					b.Fatal(refused)
				}
			}
		})
	}
}

func readSchema(b *testing.B) *schema.Structural {
	b.Helper()
	text, err := os.ReadFile(filepath.Join(crds, "messaging.warren.dev_consumerqueues.yaml"))
	if err != nil {
		b.Fatal(err)
	}
	crd, whole := &apiextensionsv1.CustomResourceDefinition{}, &apiextensions.JSONSchemaProps{}
	if err := yaml.UnmarshalStrict(text, crd); err != nil {
		b.Fatal(err)
	}
	written := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(written, whole, nil); err != nil {
		b.Fatal(err)
	}
	structural, err := schema.NewStructural(whole)
	if err != nil {
		b.Fatal(err)
	}
	return structural
}
