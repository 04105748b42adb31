package deadletterjob

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// The hashes are those of this version. Do not change them: a later version must compute the same hashes for the same specs.
func TestTheHashOfASpecDoesNotChange(t *testing.T) {
	t.Parallel()
	const consequence = "After an upgrade, no finished job of this form would be recognized: a GitOps tool creates an expired job " +
		"again, and the job would take messages once more. Let specHash leave out a new field that has its default, and keep the names " +
		"and the order of the others"
	const selector = `{ids: [k3v5qz7m2w4x6y2a], reasons: [Rejected, Expired], headers: [{name: tenant, operator: In, values: [acme]}],
		diedAfter: "2026-01-01T00:00:00Z", diedBefore: "2026-02-01T00:00:00Z", expression: redrives == 0, unknownOrigin: true}`
	for name, test := range map[string]struct {
		kind       Kind
		spec, want string
	}{
		"a Redrive with the defaults": {
			Redrive, `{consumerQueueRef: {name: orders}}`,
			"sha256:6bb6b1a341d80e0cd425407018f0c697a0493ea13bef1b3a0e57ae144975e25e",
		},
		"a Redrive with every field": {
			Redrive, `{consumerQueueRef: {name: orders}, selector: ` + selector + `, maxMessages: 5, rate: 50, maxDestinationDepth: 20000,
				destination: {type: ConsumerQueue, delay: 30s, consumerQueueRef: {name: invoices}}, maxRedrives: Unlimited, maxFailures: 20,
				removeHeaders: [x-attempts], requestedBy: jane, reason: fixed, dryRun: true, suspend: true, cancel: true,
				ttlSecondsAfterFinished: 60}`,
			"sha256:6321cf4ff66c74ce69a8a276fef9d4d5e9a1985dcd3151c10036c1e2618107af",
		},
		"a Purge with the defaults": {
			Purge, `{consumerQueueRef: {name: orders}, expectedAtMost: 5}`,
			"sha256:7452d3b46008833fe8610d2a3a82584e0234eee0b340bf3225e4006ab7bbec54",
		},
		"a Purge with every field": {
			Purge, `{consumerQueueRef: {name: orders}, selector: ` + selector + `, expectedAtMost: 5, rate: 50, requestedBy: jane,
				reason: fixed, dryRun: true, suspend: true, cancel: true, ttlSecondsAfterFinished: 60}`,
			"sha256:d3a8de2640aa86b81b68a2a5bb14eb8f6a9441b822758181f7e39dca8f3c3a94",
		},
	} {
		object := test.kind.empty()
		if err := yaml.UnmarshalStrict(asStored(t, test.kind, test.spec), object); err != nil {
			t.Fatalf("%s: %v. %s", name, err, consequence)
		}
		if got := specHash(object); got != test.want {
			t.Errorf("%s: the hash is %s instead of %s. %s", name, got, test.want, consequence)
		}
	}
}

// asStored returns a job with the defaults that the CRD gives to absent fields.
func asStored(t *testing.T, kind Kind, spec string) []byte {
	t.Helper()
	text, err := os.ReadFile("../../../config/crd/bases/messaging.warren.dev_" + strings.ToLower(string(kind)) + "s.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &definition); err != nil {
		t.Fatal(err)
	}
	fields := map[string]any{}
	if err := yaml.Unmarshal([]byte(spec), &fields); err != nil {
		t.Fatal(err)
	}
	for name, schema := range definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties {
		if _, given := fields[name]; !given && schema.Default != nil {
			fields[name] = schema.Default
		}
	}
	stored, err := json.Marshal(map[string]any{"spec": fields})
	if err != nil {
		t.Fatal(err)
	}
	return stored
}
