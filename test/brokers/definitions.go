package brokers

import (
	"encoding/json"
	"net/http"
)

// Export is the vhost's definitions as `rabbitmqctl export_definitions` and the management UI give them.
func (v *VHost) Export() json.RawMessage {
	v.tb.Helper()
	return v.Broker.call(v.tb, http.MethodGet, nil, "definitions", v.Name)
}

// Import adds definitions that were exported, perhaps from another version of RabbitMQ.
func (v *VHost) Import(definitions json.RawMessage) {
	v.tb.Helper()
	v.Broker.call(v.tb, http.MethodPost, definitions, "definitions", v.Name)
}
