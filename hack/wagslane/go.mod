// The consumer library is compared with another one. A module of its own, so that its dependencies weigh on nobody else.
module github.com/warren-mq/warren/hack/wagslane

go 1.26.0

require github.com/wagslane/go-rabbitmq v0.15.0

require github.com/rabbitmq/amqp091-go v1.10.0 // indirect
