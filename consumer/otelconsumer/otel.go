// Package otelconsumer adds traces and metrics to a consumer. It follows OpenTelemetry's semantic conventions for messaging,
// v1.41, which are in development. One option adds all of them:
//
//	orders, err := consumer.New(conn, source, handle, otelconsumer.With())
package otelconsumer

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"
	"weak"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/semconv/v1.41.0/messagingconv"
	"go.opentelemetry.io/otel/trace"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
)

const scope = "github.com/warren-mq/warren/consumer/otelconsumer"

// Option configures With, WithPropagation and RegisterHealthGauges.
type Option func(*config)

type config struct {
	tracers    trace.TracerProvider
	meters     metric.MeterProvider
	propagator propagation.TextMapPropagator
}

// WithTracerProvider replaces the global tracer provider.
func WithTracerProvider(provider trace.TracerProvider) Option {
	return func(c *config) { c.tracers = provider }
}

// WithMeterProvider replaces the global meter provider.
func WithMeterProvider(provider metric.MeterProvider) Option {
	return func(c *config) { c.meters = provider }
}

// WithPropagator replaces the global propagator.
func WithPropagator(propagator propagation.TextMapPropagator) Option {
	return func(c *config) { c.propagator = propagator }
}

// With returns an option that adds traces and metrics to a consumer. Each handled delivery has a span "process <queue>" of kind
// consumer, whose parent is the span of the producer, also for retries. Each copy has a child span "publish <tier>".
func With(options ...Option) consumer.Option {
	given := apply(options)
	t := &telemetry{tracer: given.tracers.Tracer(scope), propagator: given.propagator}
	t.makeInstruments(given.meters.Meter(scope))
	return consumer.Options(consumer.WithMiddleware(t.process), consumer.WithObserver(consumer.Observer{
		State: t.changed, Stuck: t.stuck, Settled: t.settled, Published: t.published,
	}))
}

// WithPropagation returns an option that writes the trace context into the headers of each message of Conn.Publish.
func WithPropagation(options ...Option) consumer.ConnOption {
	propagator := apply(options).propagator
	return consumer.WithPublishHook(func(ctx context.Context, _, _ string, message *consumer.Publishing) {
		propagator.Inject(ctx, carrier(message.Headers))
	})
}

// healthGauges are the gauges of RegisterHealthGauges.
var healthGauges = []struct {
	name, description string
	value             func(consumer.Health) int
}{
	{"warren.consumer.ready", "1 if the consumer is ready, else 0.", func(h consumer.Health) int {
		if h.Ready {
			return 1
		}
		return 0
	}},
	{
		"warren.consumer.messages.in_flight", "Messages whose handlers run.",
		func(h consumer.Health) int { return h.InFlight },
	},
	{
		"warren.consumer.messages.prefetched", "Received messages whose handler has not been called yet.",
		func(h consumer.Health) int { return h.Prefetched },
	},
	{
		"warren.consumer.handlers.stuck", "Handlers that still run after their context ended.",
		func(h consumer.Health) int { return h.Stuck },
	},
	{
		"warren.consumer.copies.unconfirmed", "Copies of failed messages that wait for the broker's confirm.",
		func(h consumer.Health) int { return h.Unconfirmed },
	},
}

// RegisterHealthGauges registers gauges for the health of consumers: warren.consumer.ready, warren.consumer.messages.in_flight,
// warren.consumer.messages.prefetched, warren.consumer.handlers.stuck and warren.consumer.copies.unconfirmed. It returns an error if the
// meter does not accept them.
func RegisterHealthGauges(consumers []*consumer.Consumer, options ...Option) (metric.Registration, error) {
	meter := apply(options).meters.Meter(scope)
	gauges := make([]metric.Int64ObservableGauge, len(healthGauges))
	all, errs := make([]metric.Observable, len(healthGauges)), make([]error, len(healthGauges))
	for i, g := range healthGauges {
		gauges[i], errs[i] = meter.Int64ObservableGauge(g.name, metric.WithDescription(g.description))
		all[i] = gauges[i]
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for _, c := range consumers {
			health := c.Health()
			queue := metric.WithAttributes(semconv.MessagingDestinationName(health.Queue))
			for i, g := range healthGauges {
				o.ObserveInt64(gauges[i], int64(g.value(health)), queue)
			}
		}
		return nil
	}, all...)
}

func apply(options []Option) config {
	given := config{otel.GetTracerProvider(), otel.GetMeterProvider(), otel.GetTextMapPropagator()}
	for _, option := range options {
		option(&given)
	}
	return given
}

type telemetry struct {
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
	failed     sync.Map // weak.Pointer[consumer.Delivery] to the trace.SpanContext of its span "process", until it is settled

	duration                                           messagingconv.ProcessDuration
	consumed                                           messagingconv.ClientConsumedMessages
	sent                                               messagingconv.ClientSentMessages
	operations                                         messagingconv.ClientOperationDuration
	outcomes, stateChanges, reconnects, stales, stucks metric.Int64Counter
	active                                             metric.Int64UpDownCounter
}

// makeInstruments creates the instruments. An instrument that cannot be created records nothing.
func (t *telemetry) makeInstruments(meter metric.Meter) {
	errs := make([]error, 10)
	t.duration, errs[0] = messagingconv.NewProcessDuration(meter)
	t.consumed, errs[1] = messagingconv.NewClientConsumedMessages(meter)
	t.sent, errs[2] = messagingconv.NewClientSentMessages(meter)
	t.operations, errs[3] = messagingconv.NewClientOperationDuration(meter)
	t.outcomes, errs[4] = meter.Int64Counter("warren.consumer.outcomes", metric.WithDescription("Deliveries by outcome."))
	t.stateChanges, errs[5] = meter.Int64Counter("warren.consumer.state_changes",
		metric.WithDescription("State transitions of the consumer."))
	t.reconnects, errs[6] = meter.Int64Counter("warren.consumer.reconnects",
		metric.WithDescription("How often the consumer lost its channel or could not open one."))
	t.stales, errs[7] = meter.Int64Counter("warren.consumer.stale",
		metric.WithDescription("Deliveries that the broker took back before they were settled."))
	t.stucks, errs[9] = meter.Int64Counter("warren.consumer.stuck",
		metric.WithDescription("Handlers that still ran after their context ended."))
	t.active, errs[8] = meter.Int64UpDownCounter("warren.consumer.active", metric.WithDescription("Messages that are being handled."))
	if err := errors.Join(errs...); err != nil {
		otel.Handle(err)
	}
}

func (t *telemetry) process(next consumer.HandleFunc) consumer.HandleFunc {
	return func(ctx context.Context, d *consumer.Delivery) error {
		ctx = t.propagator.Extract(ctx, carrier(d.Raw.Headers))
		ctx, span := t.tracer.Start(ctx, "process "+d.Queue(), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
			semconv.MessagingSystemRabbitMQ, semconv.MessagingOperationName("process"), semconv.MessagingOperationTypeProcess,
			semconv.MessagingDestinationName(destination(d)),
			semconv.MessagingRabbitMQDestinationRoutingKey(d.OriginalRoutingKey()),
			semconv.MessagingRabbitMQMessageDeliveryTag(int(d.Raw.DeliveryTag)), //nolint:gosec // a tag counts up from 1
			semconv.MessagingMessageBodySize(len(d.Raw.Body)),
		))
		defer span.End()
		if d.Raw.MessageId != "" {
			span.SetAttributes(semconv.MessagingMessageID(d.Raw.MessageId))
		}
		if d.Raw.CorrelationId != "" {
			span.SetAttributes(semconv.MessagingMessageConversationID(d.Raw.CorrelationId))
		}
		queue := metric.WithAttributes(semconv.MessagingDestinationName(d.Queue()))
		t.active.Add(ctx, 1, queue)
		defer t.active.Add(ctx, -1, queue)
		err := errUnreturned
		defer func() {
			if err != nil {
				t.recordFailed(d, span.SpanContext())
				record(ctx, span, err)
			}
		}()
		err = next(ctx, d)
		return err
	}
}

// recordFailed records the span of a delivery. A delivery whose handler ignores its timeout is settled before its handler returns, so the
// garbage collector may delete the record.
func (t *telemetry) recordFailed(d *consumer.Delivery, span trace.SpanContext) {
	key := weak.Make(d)
	t.failed.Store(key, span)
	runtime.AddCleanup(d, func(key weak.Pointer[consumer.Delivery]) { t.failed.Delete(key) }, key)
}

// errUnreturned is the error of a span whose handler panicked or ended its goroutine.
var errUnreturned = errors.New("the handler did not return")

// record records the error of a handler in a span. A deferred message is not an error.
func record(ctx context.Context, span trace.Span, err error) {
	kind := errorType(ctx, err)
	if kind == string(contract.ResultDeferred) {
		return
	}
	span.RecordError(err)
	span.SetAttributes(semconv.ErrorTypeKey.String(kind))
	if kind != string(contract.ResultDiscarded) { // a discarded message needs no attention
		span.SetStatus(codes.Error, err.Error())
	}
}

// errorType returns the type of a handler's error: the type that the error has, or else the type that is in the metrics.
func errorType(ctx context.Context, err error) string {
	var typed interface{ ErrorType() string } // a *consumer.Verdict, or the error of a body that cannot be decoded
	switch {
	case errors.Is(err, errUnreturned):
		return string(contract.KindPanic)
	case errors.As(err, &typed):
		return typed.ErrorType()
	case errors.Is(context.Cause(ctx), consumer.ErrTimeout):
		return string(contract.KindTimeout)
	}
	return string(contract.KindFailed)
}

// destination returns the exchange and routing key of the producer, and the queue.
func destination(d *consumer.Delivery) string {
	return fmt.Sprintf("%s:%s:%s", d.OriginalExchange(), d.OriginalRoutingKey(), d.Queue())
}

func (t *telemetry) changed(to consumer.Transition) {
	ctx, queue := context.Background(), semconv.MessagingDestinationName(to.Queue)
	t.stateChanges.Add(ctx, 1, metric.WithAttributes(
		queue, attribute.String("from", string(to.From)), attribute.String("to", string(to.To)),
	))
	if to.To == consumer.StateReconnecting {
		t.reconnects.Add(ctx, 1, metric.WithAttributes(queue))
	}
}

func (t *telemetry) stuck(handler consumer.StuckHandler) {
	t.stucks.Add(context.Background(), 1, metric.WithAttributes(semconv.MessagingDestinationName(handler.Delivery.Queue())))
}

func (t *telemetry) settled(end consumer.Settlement) {
	t.failed.Delete(weak.Make(end.Delivery))
	ctx, queue := context.Background(), semconv.MessagingDestinationName(end.Delivery.Queue())
	attributes := []attribute.KeyValue{queue}
	if end.Action.Kind != "" {
		attributes = append(attributes, semconv.ErrorTypeKey.String(string(end.Action.Kind)))
	}
	t.consumed.Add(ctx, 1, "process", messagingconv.SystemRabbitMQ, attributes...)
	t.duration.Record(ctx, end.Took.Seconds(), "process", messagingconv.SystemRabbitMQ, attributes...)
	t.outcomes.Add(ctx, 1, metric.WithAttributes(queue, attribute.String("outcome", string(end.Result))))
	if end.Stale {
		t.stales.Add(ctx, 1, metric.WithAttributes(queue))
	}
}

func (t *telemetry) published(p consumer.Publication) {
	ctx := context.Background()
	if parent, known := t.failed.Load(weak.Make(p.Delivery)); known {
		parent, _ := parent.(trace.SpanContext)
		ctx = trace.ContextWithSpanContext(ctx, parent)
	} else { // the handler was not called
		ctx = t.propagator.Extract(ctx, carrier(p.Delivery.Raw.Headers))
	}
	ended := time.Now()
	_, span := t.tracer.Start(ctx, "publish "+p.Route.Exchange+p.Route.RoutingKey, trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithTimestamp(ended.Add(-p.Took)), trace.WithAttributes(
			semconv.MessagingSystemRabbitMQ, semconv.MessagingOperationName("publish"), semconv.MessagingOperationTypeSend,
			semconv.MessagingDestinationName(p.Route.Exchange+":"+p.Route.RoutingKey),
		))
	attributes := []attribute.KeyValue{semconv.MessagingDestinationName(p.Delivery.Queue())}
	if p.Err != nil {
		attributes = append(attributes, semconv.ErrorType(p.Err))
		span.SetStatus(codes.Error, p.Err.Error())
	}
	span.SetAttributes(attributes[1:]...)
	span.End(trace.WithTimestamp(ended))
	t.sent.Add(ctx, 1, "publish", messagingconv.SystemRabbitMQ, attributes...)
	t.operations.Record(ctx, p.Took.Seconds(), "publish", messagingconv.SystemRabbitMQ, attributes...)
}

// carrier implements propagation.TextMapCarrier for message headers.
type carrier amqp.Table

// Get returns a header, or "" if it is not a string.
func (c carrier) Get(key string) string {
	value, _ := c[key].(string)
	return value
}

// Set sets a header.
func (c carrier) Set(key, value string) { c[key] = value }

// Keys returns the names of all headers.
func (c carrier) Keys() []string {
	keys := make([]string, 0, len(c))
	for key := range c {
		keys = append(keys, key)
	}
	return keys
}
