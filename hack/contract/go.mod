module github.com/warren-mq/warren/hack/contract

go 1.26.0

require (
	github.com/invopop/jsonschema v0.13.0
	github.com/warren-mq/warren/consumer v0.1.0
)

require (
	github.com/bahlo/generic-list-go v0.2.0 // indirect
	github.com/buger/jsonparser v1.1.1 // indirect
	github.com/mailru/easyjson v0.7.7 // indirect
	github.com/wk8/go-ordered-map/v2 v2.1.8 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)

replace github.com/warren-mq/warren/consumer => ../../consumer
