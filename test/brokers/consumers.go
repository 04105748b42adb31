package brokers

// Consumer is a consumer as the broker lists it.
type Consumer struct {
	Arguments map[string]any `json:"arguments"`
}

// Consumers returns the consumers of a queue. RabbitMQ lists a new one after up to five seconds.
func (v *VHost) Consumers(queue string) []Consumer {
	v.tb.Helper()
	var listed []struct {
		Consumer
		Queue struct {
			Name string `json:"name"`
		} `json:"queue"`
	}
	v.Broker.get(v.tb, &listed, "consumers", v.Name)
	var consumers []Consumer
	for _, each := range listed {
		if each.Queue.Name == queue {
			consumers = append(consumers, each.Consumer)
		}
	}
	return consumers
}
