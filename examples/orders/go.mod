module github.com/warren-mq/warren/examples/orders

go 1.25.0

require (
	github.com/rabbitmq/amqp091-go v1.16.0
	github.com/warren-mq/warren/consumer v0.1.0
)

replace github.com/warren-mq/warren/consumer => ../../consumer
