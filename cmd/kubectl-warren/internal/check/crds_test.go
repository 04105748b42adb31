package check

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// bundled returns what an API server serves with the CRDs of this version.
func bundled(t *testing.T) Served {
	t.Helper()
	served := Served{Schemas: map[string]Fields{}}
	for resource := range maps.Keys(Resources) {
		content, err := os.ReadFile(filepath.Join("../../../../config/crd/bases", "messaging.warren.dev_"+resource+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		crd := struct {
			Spec struct {
				Versions []struct {
					Schema struct {
						OpenAPIV3Schema property `json:"openAPIV3Schema"`
					} `json:"schema"`
				} `json:"versions"`
			} `json:"spec"`
		}{}
		if err := yaml.Unmarshal(content, &crd); err != nil {
			t.Fatal(err)
		}
		served.Resources = append(served.Resources, resource)
		served.Schemas[resource] = crd.Spec.Versions[0].Schema.OpenAPIV3Schema.fields()
	}
	return served
}

type property struct {
	Items      *property           `json:"items"`
	Properties map[string]property `json:"properties"`
}

func (p property) fields() Fields {
	if p.Items != nil {
		return p.Items.fields()
	}
	if len(p.Properties) == 0 {
		return nil
	}
	fields := Fields{}
	for name, below := range p.Properties {
		fields[name] = below.fields()
	}
	return fields
}

func TestCRDs(t *testing.T) {
	t.Parallel()
	const all = "brokerconnections, consumerqueues, purges, redrives"
	for name, test := range map[string]struct {
		change func(*Served)
		want   Result
	}{
		"of the plugin's version": {func(*Served) {}, Result{State: OK, Message: "the API server serves " + all}},
		"not installed": {func(s *Served) { *s = Served{} }, Result{
			State: Failed, Message: "the API server does not serve " + all,
			Remedy: "Install the CRDs, and check --context: https://warren-mq.github.io/warren/installation/",
		}},
		"one is not installed": {
			func(s *Served) {
				s.Resources = slices.DeleteFunc(s.Resources, func(name string) bool { return name == "purges" })
			},
			Result{
				State: Failed, Message: "the API server does not serve purges",
				Remedy: "Install the CRDs, and check --context: https://warren-mq.github.io/warren/installation/",
			},
		},
		"older than the plugin": {
			func(s *Served) {
				delete(s.Schemas["consumerqueues"].below("spec").below("retry"), "delayTiers")
				delete(s.Schemas["redrives"].below("status"), "failures")
			},
			Result{
				State: Warning, Message: "the CRDs are older than kubectl warren v0.1.0: " +
					"the API server drops consumerqueues.spec.retry.delayTiers, redrives.status.failures",
				Remedy: "Upgrade the CRDs, then the manager: https://warren-mq.github.io/warren/installation/#upgrade",
			},
		},
		"newer than the plugin": {
			func(s *Served) {
				for _, name := range []string{"a", "b", "c", "d"} {
					s.Schemas["brokerconnections"].below("spec").below("tls")[name] = nil
				}
			},
			Result{
				State: Warning, Message: "the CRDs are newer than kubectl warren v0.1.0, which does not know " +
					"brokerconnections.spec.tls.a, brokerconnections.spec.tls.b, brokerconnections.spec.tls.c and 1 more",
				Remedy: "Install kubectl warren of the manager's version: https://warren-mq.github.io/warren/kubectl-warren/#install",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			served := bundled(t)
			test.change(&served)
			test.want.Check, test.want.Object = "CRDs", "messaging.warren.dev/v1alpha1"
			if difference := cmp.Diff(test.want, CRDs(served, "v0.1.0")); difference != "" {
				t.Errorf("(-want +got):\n%s", difference)
			}
		})
	}
}
