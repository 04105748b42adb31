module github.com/warren-mq/warren/consumer

go 1.25.0

require github.com/rabbitmq/amqp091-go v1.16.0

require github.com/google/go-cmp v0.7.0
