package otelconsumer_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
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
			"messaging.rabbitmq.destination.routing_key": "order.placed", "error.type": "failed",
		} {
			if got := attributeOf(first.Attributes(), key); got != value {
				t.Errorf("%s is %q, not %q", key, got, value)
			}
		}
		if parent := spans.Ended()[1].Parent().SpanID(); parent != first.SpanContext().SpanID() {
			t.Errorf("the parent of the copy's span is %s", parent)
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

type order struct{}

// Spans and metrics have the same error types.
func TestTheErrorTypeOfASpan(t *testing.T) {
	t.Parallel()
	returns := func(err error) consumer.Handler[order] {
		return func(context.Context, *consumer.Message[order]) error { return err }
	}
	for name, test := range map[string]struct {
		handle    consumer.Handler[order]
		body      string
		errorType string
		status    codes.Code
	}{
		"deferred":  {returns(consumer.Defer(time.Hour)), "{}", "", codes.Unset},
		"discarded": {returns(consumer.Discard(errors.New("too old"))), "{}", "discarded", codes.Unset},
		"permanent": {returns(consumer.Permanent(errors.New("no such customer"))), "{}", "permanent", codes.Error},
		"failed":    {returns(errors.New("no stock")), "{}", "failed", codes.Error},
		"timeout": {func(ctx context.Context, _ *consumer.Message[order]) error {
			<-ctx.Done()
			return ctx.Err()
		}, "{}", "timeout", codes.Error},
		"undecodable": {returns(nil), "{", "undecodable", codes.Error},
		"panic":       {func(context.Context, *consumer.Message[order]) error { panic("a nil map") }, "{}", "panic", codes.Error},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				spans := tracetest.NewSpanRecorder()
				b := consumertest.New(t, contract.Default("orders"), test.handle, consumer.WithTimeout(time.Second),
					otelconsumer.With(otelconsumer.WithTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))))
				b.Publish(consumer.Publishing{Body: []byte(test.body)})
				b.Wait(2 * time.Second)
				span := spans.Ended()[0]
				if got := attributeOf(span.Attributes(), "error.type"); got != test.errorType || span.Status().Code != test.status {
					t.Errorf("error.type %q, status %v", got, span.Status())
				}
			})
		})
	}
}

// Messages that a handler publishes belong to the trace of the message that it handles.
func TestPropagation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		propagator := otelconsumer.WithPropagator(propagation.TraceContext{})
		var conn *consumer.Conn
		b := consumertest.New(t, contract.Default("orders"), func(ctx context.Context, _ *consumer.Message[string]) error {
			return conn.Publish(ctx, "shop", "order.shipped", consumer.Publishing{})
		}, otelconsumer.With(propagator, otelconsumer.WithTracerProvider(sdktrace.NewTracerProvider())))
		conn = b.Conn(otelconsumer.WithPropagation(propagator))
		b.Bind("shop", "order.shipped", "mails")
		const producer = "4bf92f3577b34da6a3ce929d0e0e4736"
		b.Publish(consumer.Publishing{Headers: amqp.Table{"traceparent": "00-" + producer + "-00f067aa0ba902b7-01"}})
		b.Wait(time.Second)
		header, _ := b.Published()[0].Headers["traceparent"].(string)
		if !strings.HasPrefix(header, "00-"+producer) || strings.Contains(header, "00f067aa0ba902b7") {
			t.Errorf("traceparent is %q", header)
		}
	})
}

func TestGauges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reader := sdkmetric.NewManualReader()
		release := make(chan struct{})
		b := consumertest.New(t, contract.Default("orders"), func(_ context.Context, m *consumer.Message[string]) error {
			if m.Body == "hangs" {
				<-release
				return nil
			}
			return errors.New("no stock")
		}, consumer.WithTimeout(time.Second), consumer.WithConcurrency(2), consumer.WithPrefetch(5))
		_, err := otelconsumer.RegisterHealthGauges([]*consumer.Consumer{b.Consumer()},
			otelconsumer.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))))
		if err != nil {
			t.Fatal(err)
		}
		b.Wait(time.Second)
		b.Block(true)
		b.Publish(consumer.Publishing{Body: []byte("hangs")})
		b.Publish(consumer.Publishing{Body: []byte("fails")})
		b.Wait(10 * time.Second)
		for range 3 {
			b.Publish(consumer.Publishing{Body: []byte("hangs")})
		}
		b.Wait(0)
		want := map[string]int64{
			"warren.consumer.ready": 1, "warren.consumer.messages.in_flight": 2, "warren.consumer.messages.prefetched": 2,
			"warren.consumer.handlers.stuck": 1, "warren.consumer.copies.unconfirmed": 1,
		}
		if diff := cmp.Diff(want, gaugesOf(t, reader)); diff != "" {
			t.Errorf("gauges (-want +got):\n%s", diff)
		}
		close(release)
		b.Block(false)
		b.Wait(time.Second)
	})
}

func gaugesOf(t *testing.T, reader sdkmetric.Reader) map[string]int64 {
	t.Helper()
	all := metricdata.ResourceMetrics{}
	if err := reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	gauges := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if gauge, is := m.Data.(metricdata.Gauge[int64]); is {
				gauges[m.Name] = gauge.DataPoints[0].Value
			}
		}
	}
	return gauges
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
