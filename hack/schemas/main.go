// Command schemas writes JSON schemas for editors and kubeconform from CRDs:
//
//	schemas FOLDER CRD.yaml…
//
// It writes FOLDER/GROUP/KIND_VERSION.json for each version of each kind, where kubeconform looks for them, and FOLDER/all.json,
// which selects the schema by kind.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "schemas:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: schemas FOLDER CRD.yaml…")
	}
	var all []any
	for _, file := range args[1:] {
		crd, err := readCRD(file)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, version := range crd.Spec.Versions {
			name := path.Join(crd.Spec.Group, strings.ToLower(crd.Spec.Names.Kind)+"_"+version.Name+".json")
			apiVersion := crd.Spec.Group + "/" + version.Name
			schema := resourceSchema(version.Schema.OpenAPIV3Schema, apiVersion, crd.Spec.Names.Kind)
			if err := write(filepath.Join(args[0], name), schema); err != nil {
				return err
			}
			all = append(all, onlyFor(apiVersion, crd.Spec.Names.Kind, name))
		}
	}
	return write(filepath.Join(args[0], "all.json"), map[string]any{"$schema": draft, "allOf": all})
}

// draft is the version of JSON Schema that most editors support.
const draft = "http://json-schema.org/draft-07/schema#"

// customResourceDefinition contains the fields of a CRD that are needed here. The schema is kept as JSON.
type customResourceDefinition struct {
	Spec struct {
		Group    string
		Names    struct{ Kind string }
		Versions []struct {
			Name   string
			Schema struct{ OpenAPIV3Schema map[string]any }
		}
	}
}

func readCRD(file string) (*customResourceDefinition, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	crd := &customResourceDefinition{}
	if err := yaml.Unmarshal(content, crd); err != nil {
		return nil, err
	}
	if crd.Spec.Names.Kind == "" || len(crd.Spec.Versions) == 0 {
		return nil, errors.New("not a CustomResourceDefinition")
	}
	return crd, nil
}

// resourceSchema returns the schema of a whole resource: the OpenAPI schema, the fields that the API server adds, and no unknown
// fields.
func resourceSchema(openAPI map[string]any, apiVersion, kind string) map[string]any {
	schema := strict(openAPI).(map[string]any)
	properties := schema["properties"].(map[string]any)
	properties["apiVersion"].(map[string]any)["const"] = apiVersion
	properties["kind"].(map[string]any)["const"] = kind
	properties["metadata"] = map[string]any{
		"type": "object", "description": "metadata is standard object metadata: name, namespace, labels, annotations.",
	}
	schema["required"] = []string{"apiVersion", "kind", "metadata", "spec"}
	schema["$schema"] = draft
	return schema
}

// strict returns a schema without the keywords that only the API server understands. Objects allow only the named fields.
func strict(schema any) any {
	switch schema := schema.(type) {
	case map[string]any:
		made := map[string]any{}
		for key, value := range schema {
			if !strings.HasPrefix(key, "x-kubernetes-") {
				made[key] = strict(value)
			}
		}
		if _, isObject := schema["properties"].(map[string]any); isObject && schema["type"] == "object" {
			made["additionalProperties"] = false
		}
		return made
	case []any:
		made := make([]any, len(schema))
		for i := range schema {
			made[i] = strict(schema[i])
		}
		return made
	}
	return schema
}

// onlyFor applies the schema in a file to resources of one kind.
func onlyFor(apiVersion, kind, file string) map[string]any {
	return map[string]any{
		"if": map[string]any{
			"properties": map[string]any{
				"apiVersion": map[string]any{"const": apiVersion}, "kind": map[string]any{"const": kind},
			},
			"required": []string{"apiVersion", "kind"},
		},
		"then": map[string]any{"$ref": file},
	}
}

func write(file string, schema map[string]any) error {
	content, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, append(content, '\n'), 0o644)
}
