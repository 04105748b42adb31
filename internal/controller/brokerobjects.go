package controller

import "github.com/warren-mq/warren/internal/vhost"

// The indexes of ConsumerQueues by which the cache is asked.
const (
	// indexConnection is, of a ConsumerQueue, the effective name of its BrokerConnection.
	indexConnection = "connection"
	// indexBrokerObject is, of a ConsumerQueue, each broker object that it has to do with.
	indexBrokerObject = "brokerObject"
)

// brokerObjects are the keys of indexBrokerObject; a queue and an exchange may have the same name.
func brokerObjects(names vhost.Selection) []string {
	var keys []string
	for _, name := range names.Queues {
		keys = append(keys, "queue/"+name)
	}
	for _, name := range names.Exchanges {
		keys = append(keys, "exchange/"+name)
	}
	if names.FollowFrom != "" {
		keys = append(keys, "route/"+names.FollowFrom)
	}
	return keys
}
