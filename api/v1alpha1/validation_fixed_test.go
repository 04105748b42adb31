package v1alpha1_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// change is two values of a field.
type change struct{ before, after string }

// oneShot is a kind whose spec is immutable except for a few fields.
type oneShot struct {
	// required are the fields that every spec has.
	required map[string]string
	// fixed are the immutable fields, changeable the others.
	fixed, changeable map[string]change
	// refusal is the message that the user sees.
	refusal string
	// rules are the kind's other validation rules.
	rules map[string]rule
}

var (
	fixedSelector = change{`{reasons: [Rejected]}`, `{reasons: [Rejected], expression: size > 1}`}
	anyRate       = change{`5`, `Unlimited`}
)

var oneShots = map[string]oneShot{
	"Redrive": {
		required: map[string]string{"consumerQueueRef": `{name: orders}`},
		fixed: map[string]change{
			"consumerQueueRef": {`{name: orders}`, `{name: other}`}, "destination": {`{type: Retry}`, `{type: Retry, delay: 5m}`},
			"selector": fixedSelector, "maxMessages": {`5`, `6`}, "maxDestinationDepth": {`5`, `Unlimited`}, "maxRedrives": {`5`, `Unlimited`},
			"maxFailures": {`5`, `6`}, "removeHeaders": {`[a]`, `[a, b]`}, "requestedBy": {`alice`, `bob`}, "reason": {`one`, `two`},
			"dryRun": {`true`, `false`},
		},
		changeable: map[string]change{
			"rate": anyRate, "suspend": {`true`, `false`}, "cancel": {`false`, `true`}, "ttlSecondsAfterFinished": {`5`, `6`},
		},
		refusal: sameRedrive, rules: redriveRules,
	},
	"Purge": {
		required: map[string]string{"consumerQueueRef": `{name: orders}`, "expectedAtMost": `5`},
		fixed: map[string]change{
			"consumerQueueRef": {`{name: orders}`, `{name: other}`}, "selector": fixedSelector, "expectedAtMost": {`5`, `6`},
			"requestedBy": {`alice`, `bob`}, "reason": {`one`, `two`}, "dryRun": {`true`, `false`},
		},
		changeable: map[string]change{
			"rate": anyRate, "suspend": {`true`, `false`}, "cancel": {`false`, `true`}, "ttlSecondsAfterFinished": {`5`, `6`},
		},
		refusal: samePurge, rules: purgeRules,
	},
}

// with returns a spec with the required fields and one more, which is left out if its value is empty.
func (o oneShot) with(field, value string) string {
	fields := maps.Clone(o.required)
	fields[field] = value
	var written []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if fields[name] != "" {
			written = append(written, fmt.Sprintf("%s: %s", name, fields[name]))
		}
	}
	return "{" + strings.Join(written, ", ") + "}"
}

// Each field of a Redrive and of a Purge is either immutable or changeable.
func TestFixedFields(t *testing.T) {
	t.Parallel()
	for kind, o := range oneShots {
		for field, values := range o.fixed {
			t.Run(kind+" "+field, func(t *testing.T) {
				t.Parallel()
				given := rule{
					kind: kind, from: o.with(field, values.before), accepted: []string{o.with(field, values.before)},
					refused: map[string]string{o.with(field, values.after): o.refusal},
				}
				if _, required := o.required[field]; !required {
					given.refused[o.with(field, "")] = o.refusal
					rule{
						kind: kind, from: o.with(field, ""), accepted: []string{o.with(field, "")},
						refused: map[string]string{o.with(field, values.before): o.refusal},
					}.check(t)
				}
				given.check(t)
			})
		}
		for field, values := range o.changeable {
			t.Run(kind+" "+field, func(t *testing.T) {
				t.Parallel()
				rule{kind: kind, from: o.with(field, values.before), accepted: []string{o.with(field, values.after), o.with(field, "")}}.check(t)
				rule{kind: kind, from: o.with(field, ""), accepted: []string{o.with(field, values.before), o.with(field, values.after)}}.check(t)
			})
		}
	}
}

// The test above covers every field of the spec.
func TestFixedFieldsAreAll(t *testing.T) {
	t.Parallel()
	for kind, o := range oneShots {
		spec := specSchema(t, kind)
		tested := slices.Concat(slices.Collect(maps.Keys(o.fixed)), slices.Collect(maps.Keys(o.changeable)))
		slices.Sort(tested)
		if difference := cmp.Diff(slices.Sorted(maps.Keys(spec.Properties)), tested); difference != "" {
			t.Errorf("%s: %s", kind, difference)
		}
	}
}

// For each validation rule, some spec is refused with the rule's message.
func TestEachRuleRefuses(t *testing.T) {
	t.Parallel()
	for kind, o := range oneShots {
		var shown []string
		for _, r := range o.rules {
			shown = slices.AppendSeq(shown, maps.Values(r.refused))
		}
		messages := messagesOf(specSchema(t, kind))
		if len(messages) < 4 {
			t.Errorf("%s has only the rules %q", kind, messages)
		}
		for _, message := range messages {
			if !slices.ContainsFunc(shown, func(refusal string) bool { return strings.HasSuffix(refusal, message) }) {
				t.Errorf("%s: no spec is refused with the message %q", kind, message)
			}
		}
	}
}

// specSchema returns the schema of a kind's spec.
func specSchema(t *testing.T, kind string) apiextensionsv1.JSONSchemaProps {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "crd", "bases", "messaging.warren.dev_"+strings.ToLower(kind)+"s.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, crd); err != nil {
		t.Fatal(err)
	}
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
}

// messagesOf returns the messages of the rules of a schema and of its nested schemas.
func messagesOf(schema apiextensionsv1.JSONSchemaProps) []string {
	var messages []string
	for _, r := range schema.XValidations {
		messages = append(messages, r.Message)
	}
	for _, property := range schema.Properties {
		messages = append(messages, messagesOf(property)...)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		messages = append(messages, messagesOf(*schema.Items.Schema)...)
	}
	return messages
}
