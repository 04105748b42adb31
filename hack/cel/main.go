// Command cel expands the functions of a file such as api/v1alpha1/rules.cel in the validation rules of CRDs:
//
//	cel rules.cel crd.yaml…
//
// Rules that call no function are not changed.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: cel rules.cel crd.yaml…")
		os.Exit(2)
	}
	if err := expandAll(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func expandAll(rules string, crds []string) error {
	text, err := os.ReadFile(rules)
	if err != nil {
		return err
	}
	library, err := parseLibrary(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", rules, err)
	}
	for _, path := range crds {
		if err := expandFile(path, library); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	if unused := library.unused(); len(unused) > 0 {
		return fmt.Errorf("%s: no rule calls %q, remove the functions", rules, unused)
	}
	return nil
}

func expandFile(path string, library *library) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var crd any
	keepNumbers := func(decoder *json.Decoder) *json.Decoder {
		decoder.UseNumber()
		return decoder
	}
	if err := yaml.Unmarshal(text, &crd, keepNumbers); err != nil {
		return err
	}
	if err := expandRules(crd, library); err != nil {
		return err
	}
	text, err = yaml.Marshal(crd)
	if err != nil {
		return err
	}
	return os.WriteFile(path, append([]byte("---\n"), text...), 0o644) //nolint:gosec // the mode that controller-gen uses
}

// expandRules expands the rules of a schema and of all schemas inside it.
func expandRules(node any, library *library) error {
	switch node := node.(type) {
	case []any:
		for _, item := range node {
			if err := expandRules(item, library); err != nil {
				return err
			}
		}
	case map[string]any:
		for key, value := range node {
			if key == "x-kubernetes-validations" {
				if err := expandList(value, library); err != nil {
					return err
				}
			} else if err := expandRules(value, library); err != nil {
				return err
			}
		}
	}
	return nil
}

func expandList(validations any, library *library) error {
	list, _ := validations.([]any)
	for _, item := range list {
		validation, _ := item.(map[string]any)
		rule, _ := validation["rule"].(string)
		expanded, err := library.expand(rule)
		if err != nil {
			return fmt.Errorf("rule %s: %w", rule, err)
		}
		validation["rule"] = expanded
	}
	return nil
}
