package brokers

import (
	"encoding/json"
	"net/http"
)

// Export returns the definitions of the vhost, in the format of `rabbitmqctl export_definitions` and the management UI.
func (v *VHost) Export() json.RawMessage {
	v.tb.Helper()
	return v.Broker.call(v.tb, http.MethodGet, nil, "definitions", v.Name)
}

// Import imports exported definitions, possibly of another version of RabbitMQ.
func (v *VHost) Import(definitions json.RawMessage) {
	v.tb.Helper()
	v.Broker.call(v.tb, http.MethodPost, definitions, "definitions", v.Name)
}
