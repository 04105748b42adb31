// Contract prints the JSON Schema of a contract, with the comments of the types as descriptions:
//
//	go -C hack/tools run ./contract >consumer/contract/contract.schema.json
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"

	"github.com/invopop/jsonschema"

	"github.com/warren-mq/warren/consumer/contract"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "contract:", err)
		os.Exit(1)
	}
}

func run() error {
	reflector := &jsonschema.Reflector{
		Anonymous: true, DoNotReference: true,
		AllowAdditionalProperties: true, // of later versions
		Mapper: func(t reflect.Type) *jsonschema.Schema {
			if t == reflect.TypeFor[contract.Duration]() {
				return &jsonschema.Schema{Type: "string", Pattern: `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`}
			}
			return nil
		},
	}
	if err := os.Chdir("../../consumer"); err != nil {
		return err
	}
	if err := reflector.AddGoComments("github.com/warren-mq/warren/consumer", "./contract"); err != nil {
		return fmt.Errorf("read comments: %w", err)
	}
	schema := reflector.Reflect(&contract.Contract{})
	schema.ID = "https://contract.warren.dev/v1/contract.schema.json"
	schema.Title = "Contract"
	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Printf("%s\n", text)
	return err
}
