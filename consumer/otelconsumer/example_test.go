package otelconsumer_test

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/consumer/otelconsumer"
)

func handle(context.Context, *consumer.Message[string]) error { return nil }

// The consumer uses the global providers of OpenTelemetry. Messages that its handler publishes continue the trace.
func ExampleWith() {
	conn := consumer.NewConn(consumer.URI(os.Getenv("AMQP_URL")), otelconsumer.WithPropagation())
	orders, err := consumer.New(conn, contract.Default("orders"), handle, otelconsumer.With())
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err = orders.Run(ctx)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleRegisterHealthGauges() {
	var orders, invoices *consumer.Consumer
	registration, err := otelconsumer.RegisterHealthGauges([]*consumer.Consumer{orders, invoices})
	if err != nil {
		log.Fatal(err)
	}
	if err := registration.Unregister(); err != nil { // when the program ends
		log.Print(err)
	}
}
