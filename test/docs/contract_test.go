package docs

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/warren-mq/warren/consumer/contract"
)

const contractFolder = "../../consumer/contract/"

// The schema of a contract refuses the same mistakes as Validate, for tests in any language.
func TestContractSchema(t *testing.T) {
	t.Parallel()
	schema := contractSchema(t, "contract.schema.json")
	for name, test := range map[string]struct {
		change func(map[string]any)
		valid  bool
	}{
		"the default":                  {func(map[string]any) {}, true},
		"a field of a later version":   {func(c map[string]any) { c["later"] = 1 }, true},
		"Reject":                       {reject, true},
		"Requeue":                      {requeue, true},
		"None without tiers":           {func(c map[string]any) { c["strategy"] = "None"; delete(c, "tiers") }, true},
		"None with a tier":             {func(c map[string]any) { c["strategy"] = "None" }, true},
		"no dead-letter queue":         {noDeadLetters, true},
		"an empty dead-letter queue":   {func(c map[string]any) { noDeadLetters(c); c["deadLetterQueue"] = "" }, true},
		"a DLQ without park":           {func(c map[string]any) { noDeadLetters(c); c["deadLetterQueue"] = "orders.dlq" }, false},
		"rejects without park":         {func(c map[string]any) { noDeadLetters(c); c["rejectDeadLetters"] = true }, false},
		"park by the default exchange": {func(c map[string]any) { c["park"] = route("", "orders.dlq") }, true},
		"a consumer timeout":           {func(c map[string]any) { c["consumerTimeoutMilliseconds"] = 60_000 }, true},
		"a pause":                      {pause("k3v9q2m7xa", "2026-11-26T08:10:00.5+01:00"), true},
		"a pause without an ID":        {pause("", "2026-11-26T08:10:00Z"), false},
		"a pause without an end":       {pause("k3v9q2m7xa", "0001-01-01T00:00:00Z"), false},
		"a pause in words":             {pause("k3v9q2m7xa", "tomorrow"), false},
		"another apiVersion":           {func(c map[string]any) { c["apiVersion"] = "contract.warren.dev/v2" }, false},
		"no queue":                     {func(c map[string]any) { c["queue"] = "" }, false},
		"no virtual host":              {func(c map[string]any) { c["virtualHost"] = "" }, false},
		"another strategy":             {func(c map[string]any) { c["strategy"] = "Hope" }, false},
		"no attempts":                  {func(c map[string]any) { c["maxAttempts"] = 0 }, false},
		"Publish without tiers":        {func(c map[string]any) { delete(c, "tiers") }, false},
		"Publish with an empty list":   {func(c map[string]any) { c["tiers"] = []any{} }, false},
		"Reject without a tier":        {func(c map[string]any) { reject(c); delete(c, "tiers") }, false},
		"Reject with two tiers":        {func(c map[string]any) { reject(c); c["tiers"] = []any{tier(1), tier(2)} }, false},
		"Reject that dead-letters":     {func(c map[string]any) { reject(c); c["rejectDeadLetters"] = true }, false},
		"Requeue with a tier":          {func(c map[string]any) { requeue(c); c["tiers"] = []any{tier(1)} }, false},
		"a tier without a delay":       {func(c map[string]any) { c["tiers"] = []any{tier(0)} }, false},
		"a tier without a route": {func(c map[string]any) {
			c["tiers"] = []any{map[string]any{"delayMilliseconds": 1, "exchange": "", "routingKey": ""}}
		}, false},
		"park without a route":           {func(c map[string]any) { c["park"] = route("", "") }, false},
		"no consumer timeout":            {func(c map[string]any) { c["consumerTimeoutMilliseconds"] = 0 }, false},
		"a delay in words":               {func(c map[string]any) { c["consumerTimeoutMilliseconds"] = "1m" }, false},
		"a fraction of a millisecond":    {func(c map[string]any) { c["consumerTimeoutMilliseconds"] = 0.5 }, false},
		"more than RabbitMQ's limit":     {func(c map[string]any) { c["consumerTimeoutMilliseconds"] = 4294967296 }, false},
		"a redelivery delay without max": {func(c map[string]any) { c["redeliveryDelay"] = map[string]any{"minMilliseconds": 1} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			document := map[string]any{}
			text, err := json.Marshal(contract.Default("orders"))
			if err == nil {
				err = json.Unmarshal(text, &document)
			}
			if err != nil {
				t.Fatal(err)
			}
			test.change(document)
			text, err = json.Marshal(document)
			if err != nil {
				t.Fatal(err)
			}
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(value); (err == nil) != test.valid {
				t.Errorf("the schema: %v", err)
			}
			if _, err := contract.Parse(text); (err == nil) != test.valid && !onlySchema[name] {
				t.Errorf("Parse: %v", err)
			}
		})
	}
}

// onlySchema are mistakes that Go decodes to a zero value, so that only the schema finds them.
var onlySchema = map[string]bool{"a redelivery delay without max": true}

func route(exchange, key string) map[string]any {
	return map[string]any{"exchange": exchange, "routingKey": key}
}

func tier(delay int) map[string]any {
	made := route("", "orders.retry")
	made["delayMilliseconds"] = delay
	return made
}

func pause(id, until string) func(map[string]any) {
	return func(c map[string]any) { c["paused"] = map[string]any{"id": id, "until": until} }
}

func reject(c map[string]any) {
	c["strategy"], c["tiers"], c["rejectDeadLetters"] = "Reject", []any{tier(1)}, false
}

func requeue(c map[string]any) {
	c["strategy"] = "Requeue"
	delete(c, "tiers")
}

func noDeadLetters(c map[string]any) {
	delete(c, "park")
	delete(c, "deadLetterQueue")
	c["rejectDeadLetters"] = false
}

func TestVectorsMatchTheirSchema(t *testing.T) {
	t.Parallel()
	schema := contractSchema(t, "vectors.schema.json")
	files, err := filepath.Glob(contractFolder + "vectors/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no vectors: %v", err)
	}
	for _, file := range files {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(read(t, strings.TrimPrefix(file, "../../"))))
		if err == nil {
			err = schema.Validate(value)
		}
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// contractSchema compiles a schema. References are resolved to files in the same directory.
func contractSchema(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	for _, file := range []string{"contract.schema.json", "vectors.schema.json"} {
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(read(t, "consumer/contract/"+file)))
		if err == nil {
			err = compiler.AddResource("https://contract.warren.dev/v1/"+file, document)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	schema, err := compiler.Compile("https://contract.warren.dev/v1/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}
