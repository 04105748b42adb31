// Command contract writes the JSON Schemas of a contract and of its test vectors. The comments of the Go types become
// descriptions:
//
//	go -C hack/tools run ./contract
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"

	"github.com/invopop/jsonschema"

	"github.com/warren-mq/warren/consumer/contract"
)

// vector is a test case in the files of consumer/contract/vectors.
type vector struct {
	Name     string            `json:"name"     jsonschema_description:"What the case shows."`
	Contract contract.Contract `json:"contract"`
	Delivery contract.Facts    `json:"delivery" jsonschema_description:"The facts about the message before it is handled."`
	Outcome  contract.Outcome  `json:"outcome"  jsonschema_description:"How handling the message ended."`
	Progress contract.Progress `json:"progress" jsonschema_description:"The attempts and the origin of the message."`
	Action   contract.Action   `json:"action"   jsonschema_description:"What the consumer has to do."`
}

const base = "https://contract.warren.dev/v1/"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "contract:", err)
		os.Exit(1)
	}
}

func run() error {
	if err := os.Chdir("../../consumer"); err != nil {
		return err
	}
	document, err := reflectSchema(contract.Contract{}, "contract.schema.json", "Contract")
	if err != nil {
		return err
	}
	if err := constrain(document); err != nil {
		return err
	}
	vectors, err := vectorsSchema()
	if err != nil {
		return err
	}
	for name, schema := range map[string]*jsonschema.Schema{"contract.schema.json": document, "vectors.schema.json": vectors} {
		text, err := json.MarshalIndent(schema, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile("contract/"+name, append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// vectorsSchema returns the schema of a file of vectors.
func vectorsSchema() (*jsonschema.Schema, error) {
	item, err := reflectSchema(vector{}, "vectors.schema.json", "Vectors")
	if err != nil {
		return nil, err
	}
	item.Properties.Set("contract", &jsonschema.Schema{Ref: "contract.schema.json"})
	outcome := item.Properties.Value("outcome")
	outcome.Required = []string{"result"} // the reflector does not support omitzero
	outcome.Properties.Value("result").Enum = []any{
		contract.ResultSucceeded, contract.ResultFailed, contract.ResultPanicked, contract.ResultTimedOut,
		contract.ResultPermanent, contract.ResultUndecodable, contract.ResultCrashed, contract.ResultDeferred, contract.ResultDiscarded, contract.ResultReturned,
	}
	action := item.Properties.Value("action")
	for _, name := range []string{"verb", "otherwise"} {
		action.Properties.Value(name).Enum = []any{contract.VerbAck, contract.VerbReject, contract.VerbRequeue, contract.VerbReturn, contract.VerbPublish}
	}
	vectors := &jsonschema.Schema{Version: item.Version, ID: item.ID, Title: item.Title, Type: "array", Items: item}
	item.Version, item.ID, item.Title = "", "", ""
	return vectors, nil
}

func reflectSchema(value any, name, title string) (*jsonschema.Schema, error) {
	reflector := &jsonschema.Reflector{
		Anonymous: true, DoNotReference: true,
		AllowAdditionalProperties: true, // later versions may add properties
		Mapper: func(t reflect.Type) *jsonschema.Schema {
			if t == reflect.TypeFor[contract.Duration]() {
				return &jsonschema.Schema{Type: "integer", Minimum: "0", Maximum: "4294967295"}
			}
			return nil
		},
	}
	if err := reflector.AddGoComments("github.com/warren-mq/warren/consumer", "./contract"); err != nil {
		return nil, fmt.Errorf("read comments: %w", err)
	}
	schema := reflector.Reflect(value)
	schema.ID, schema.Title = base+jsonschema.ID(name), title
	return schema, nil
}

// timePattern matches the times of RFC 3339 except the zero value of Go. Most validators do not check the keyword format.
const timePattern = `^[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$`

// constrain adds rules that the Go types do not express, so that the schema refuses what Validate refuses.
func constrain(schema *jsonschema.Schema) error {
	route := `{"anyOf": [{"properties": {"exchange": {"minLength": 1}}}, {"properties": {"routingKey": {"minLength": 1}}}]}`
	rules := `{
		"properties": {
			"apiVersion": {"const": "` + contract.APIVersion + `"}, "queue": {"minLength": 1}, "virtualHost": {"minLength": 1},
			"tiers": {"items": ` + route + `}, "park": ` + route + `, 
			"paused": {"properties": {"id": {"minLength": 1}, "until": {"pattern": "` + timePattern + `"}}}
		},
		"allOf": [
			{"if": {"properties": {"strategy": {"const": "Publish"}}}, "then": {"required": ["tiers"], "properties": {"tiers": {"minItems": 1}}}},
			{"if": {"properties": {"strategy": {"const": "Reject"}}}, "then": {"required": ["tiers"],
				"properties": {"tiers": {"minItems": 1, "maxItems": 1}, "rejectDeadLetters": {"const": false}}}},
			{"if": {"properties": {"strategy": {"const": "Requeue"}}}, "then": {"properties": {"tiers": {"maxItems": 0}}}},
			{"if": {"anyOf": [
				{"required": ["deadLetterQueue"], "properties": {"deadLetterQueue": {"minLength": 1}}},
				{"properties": {"rejectDeadLetters": {"const": true}}}]}, "then": {"required": ["park"]}}
		]
	}`
	constraint := &jsonschema.Schema{}
	if err := json.Unmarshal([]byte(rules), constraint); err != nil {
		return fmt.Errorf("parse the rules: %w", err)
	}
	schema.AllOf = append(schema.AllOf, constraint)
	return nil
}
