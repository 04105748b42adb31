package main

import (
	"flag"
	"fmt"
	"io"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client/config"

	"github.com/warren-mq/warren/cmd/options"
)

// flagsPage is the data of the page of flags.
type flagsPage struct {
	Flags []*flag.Flag
	// Given are the values in the manager's Deployment, by flag.
	Given       map[string]string
	MemoryLimit string
}

// readFlags reads the flags from the manager's flag set, and their values from manifests.
func readFlags(manifests io.Reader) (flagsPage, error) {
	page := flagsPage{Given: map[string]string{}}
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	config.RegisterFlags(flags)
	new(options.Options).Bind(flags)
	flags.VisitAll(func(f *flag.Flag) { page.Flags = append(page.Flags, f) })
	decoder, deployment := yaml.NewYAMLOrJSONDecoder(manifests, 4096), appsv1.Deployment{}
	for deployment.Kind != "Deployment" {
		deployment = appsv1.Deployment{}
		if err := decoder.Decode(&deployment); err != nil {
			return page, fmt.Errorf("the manifests contain no Deployment: %w", err)
		}
	}
	container := deployment.Spec.Template.Spec.Containers[0]
	for _, argument := range container.Args {
		name, value, hasValue := strings.Cut(strings.TrimPrefix(argument, "--"), "=")
		if !hasValue {
			value = "true" // which package flag uses for a flag without a value
		}
		page.Given[name] = value
	}
	for _, variable := range container.Env {
		if variable.Name == "GOMEMLIMIT" {
			page.MemoryLimit = variable.Value
		}
	}
	return page, nil
}
