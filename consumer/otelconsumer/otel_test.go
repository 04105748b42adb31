package otelconsumer_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/consumertest"
	"github.com/warren-mq/warren/consumer/contract"
	"github.com/warren-mq/warren/consumer/otelconsumer"
)

func TestTracesAndMetrics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		spans := tracetest.NewSpanRecorder()
		reader := sdkmetric.NewManualReader()
		b := consumertest.New(t, contract.Default("orders"), func(_ context.Context, m *consumer.Message[string]) error {
			if m.Attempt() == 1 {
				return errors.New("no stock")
			}
			return nil
		}, otelconsumer.With(
			otelconsumer.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))),
			otelconsumer.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))),
			otelconsumer.WithPropagator(propagation.TraceContext{}),
		))
		const producer = "4bf92f3577b34da6a3ce929d0e0e4736"
		b.PublishTo("shop", "order.placed", consumer.Publishing{
			MessageId: "m-1", Body: []byte("a"), Headers: amqp.Table{"traceparent": "00-" + producer + "-00f067aa0ba902b7-01"},
		})
		b.Wait(time.Minute)
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
		var names []string
		for _, span := range spans.Ended() {
			names = append(names, span.Name())
			if span.SpanContext().TraceID().String() != producer {
				t.Errorf("span %q is not in the producer's trace", span.Name())
			}
		}
		want := []string{"process orders", "publish orders.retry.30s", "process orders"}
		if len(names) != len(want) || names[0] != want[0] || names[1] != want[1] || names[2] != want[2] {
			t.Fatalf("spans %q, not %q", names, want)
		}
		first := spans.Ended()[0]
		if first.SpanKind() != trace.SpanKindConsumer || first.Status().Code != codes.Error {
			t.Errorf("the first span has kind %v and status %v", first.SpanKind(), first.Status())
		}
		for key, value := range map[attribute.Key]string{
			"messaging.system": "rabbitmq", "messaging.destination.name": "shop:order.placed:orders", "messaging.message.id": "m-1",
			"messaging.rabbitmq.destination.routing_key": "order.placed",
		} {
			if got := attributeOf(first.Attributes(), key); got != value {
				t.Errorf("%s is %q, not %q", key, got, value)
			}
		}
		sums := sumsOf(t, reader)
		for name, value := range map[string]int64{
			"messaging.client.consumed.messages": 2, "messaging.client.sent.messages": 1, "warren.consumer.outcomes": 2,
			"warren.consumer.active": 0, "warren.consumer.state_changes": 7,
		} {
			if sums[name] != value {
				t.Errorf("%s is %d, not %d", name, sums[name], value)
			}
		}
	})
}

func attributeOf(attributes []attribute.KeyValue, key attribute.Key) string {
	for _, a := range attributes {
		if a.Key == key {
			return a.Value.String()
		}
	}
	return ""
}

func sumsOf(t *testing.T, reader sdkmetric.Reader) map[string]int64 {
	t.Helper()
	all := metricdata.ResourceMetrics{}
	if err := reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	sums := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if sum, is := m.Data.(metricdata.Sum[int64]); is {
				for _, point := range sum.DataPoints {
					sums[m.Name] += point.Value
				}
			}
		}
	}
	return sums
}
