package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/warren-mq/warren/consumer/contract"
)

// Option is an option of New.
type Option func(*settings)

type settings struct {
	concurrency, prefetch int
	timeout, drain        time.Duration
	middleware            []Middleware
	limiter               Limiter
	observers             []Observer
	logger                *slog.Logger
	failureText           func(error) string
	maxCrashes            int
	brokerTimeout         time.Duration // after which the broker takes messages back

	handle HandleFunc // decoding and handler, with the middleware around them
}

// Defaults of the options.
const (
	defaultConcurrency  = 10
	defaultDrainTimeout = 20 * time.Second
	// brokerTimeout is RabbitMQ's own consumer timeout.
	brokerTimeout = 30 * time.Minute
)

// WithConcurrency is how many messages are handled at the same time: 10, or 1 for a single active consumer.
func WithConcurrency(n int) Option { return func(s *settings) { s.concurrency = n } }

// WithPrefetch is how many messages the broker sends ahead: twice the concurrency; as many as the concurrency under the strategy
// Requeue, where a crash costs each of them an attempt, and for a single active consumer.
func WithPrefetch(n int) Option { return func(s *settings) { s.prefetch = n } }

// WithTimeout is after how long a handler's context ends. The broker takes messages back after its consumer timeout, which begins when it
// sends them. The default is four fifths of that, divided by how many prefetched messages each handler has: 12 minutes for a consumer
// timeout of 30 minutes and a prefetch of twice the concurrency.
func WithTimeout(d time.Duration) Option { return func(s *settings) { s.timeout = d } }

// WithDrainTimeout is how long handlers have when the consumer ends: 20 s. Stay 10 s below terminationGracePeriodSeconds.
func WithDrainTimeout(d time.Duration) Option { return func(s *settings) { s.drain = d } }

// HandleFunc handles a delivery: it decodes the body and calls the handler.
type HandleFunc func(context.Context, *Delivery) error

// Middleware wraps the handling of a delivery.
type Middleware func(next HandleFunc) HandleFunc

// WithMiddleware adds middleware. The first is the outermost.
func WithMiddleware(middleware ...Middleware) Option {
	return func(s *settings) { s.middleware = append(s.middleware, middleware...) }
}

// AckAlways is middleware for work that is not worth another attempt: each error of the handler becomes Discard. That includes Defer: a
// deferred message does not come again. A panic, or a body that cannot be decoded, is still a failure.
func AckAlways(next HandleFunc) HandleFunc {
	return func(ctx context.Context, d *Delivery) error {
		err := next(ctx, d)
		if err == nil || errors.As(err, new(undecodable)) {
			return err
		}
		return Discard(err)
	}
}

// Limiter lets a message be handled.
type Limiter interface {
	// Acquire waits for permission, until ctx ends. After an error it is called again a second later. Release is called once the
	// message was handled.
	Acquire(ctx context.Context) (release func(), err error)
}

// LimiterFunc is a function that is a Limiter.
type LimiterFunc func(ctx context.Context) (release func(), err error)

// Acquire calls the function.
func (f LimiterFunc) Acquire(ctx context.Context) (release func(), err error) { return f(ctx) }

// WithLimiter asks a limiter before each message.
func WithLimiter(limiter Limiter) Option { return func(s *settings) { s.limiter = limiter } }

// WithObserver adds an observer, which is told what happens.
func WithObserver(observer Observer) Option {
	return func(s *settings) { s.observers = append(s.observers, observer) }
}

// Options makes one option of several.
func Options(options ...Option) Option {
	return func(s *settings) {
		for _, option := range options {
			option(s)
		}
	}
}

// WithLogger replaces slog.Default.
func WithLogger(logger *slog.Logger) Option { return func(s *settings) { s.logger = logger } }

// WithFailureText says what the header x-failure-message tells of an error; it may leave out what is secret. The default is the
// error's text.
func WithFailureText(text func(error) string) Option {
	return func(s *settings) { s.failureText = text }
}

// WithMaxCrashes is how many deliveries that ended neither in a success nor in a failure send a message to the dead-letter queue: 20.
func WithMaxCrashes(n int) Option { return func(s *settings) { s.maxCrashes = n } }

// apply are the options as they were given.
func apply(options []Option) *settings {
	s := &settings{
		drain: defaultDrainTimeout, logger: slog.Default(), maxCrashes: contract.DefaultMaxCrashes,
		failureText: error.Error,
	}
	for _, option := range options {
		option(s)
	}
	return s
}

// settingsOf are the options for a contract, with defaults.
func settingsOf(options []Option, current contract.Contract) (*settings, error) {
	s := apply(options)
	if s.concurrency == 0 {
		s.concurrency = defaultConcurrency
		if current.SingleActiveConsumer {
			s.concurrency = 1
		}
	}
	if s.prefetch == 0 {
		s.prefetch = 2 * s.concurrency
		if current.Strategy == contract.StrategyRequeue || current.SingleActiveConsumer {
			s.prefetch = s.concurrency
		}
	}
	limit := brokerTimeout
	if current.ConsumerTimeout != nil {
		limit = time.Duration(*current.ConsumerTimeout)
	}
	s.brokerTimeout = limit
	if s.timeout == 0 && s.concurrency > 0 {
		waves := (s.prefetch + s.concurrency - 1) / s.concurrency
		s.timeout = limit / 5 * 4 / time.Duration(max(waves, 1))
	}
	return s, s.validate(limit)
}

// returnDeadline is when a message goes back to the queue that is not settled, before the broker takes back all messages of the channel.
func (s *settings) returnDeadline(d *Delivery) time.Time {
	return d.arrived.Add(s.brokerTimeout - s.brokerTimeout/20)
}

// latestStart is when the handling of a message begins at the latest: the handler may take as long as it is allowed to.
func (s *settings) latestStart(d *Delivery) time.Time {
	return d.arrived.Add(max(s.brokerTimeout-s.brokerTimeout/20-s.timeout, s.brokerTimeout/20))
}

func (s *settings) validate(limit time.Duration) error {
	var wrong []error
	refuse := func(format string, arguments ...any) {
		wrong = append(wrong, fmt.Errorf("consumer: "+format, arguments...))
	}
	if s.concurrency < 0 {
		refuse("WithConcurrency(%d) must be positive", s.concurrency)
	}
	const maxPrefetch = 65535
	if s.prefetch < s.concurrency || s.prefetch > maxPrefetch {
		refuse("WithPrefetch(%d) must be between the concurrency, %d, and %d", s.prefetch, s.concurrency, maxPrefetch)
	}
	if s.timeout < 0 || s.timeout >= limit {
		refuse("WithTimeout(%s) must be shorter than the consumer timeout of the broker, %s", s.timeout, limit)
	}
	if s.drain <= 0 {
		refuse("WithDrainTimeout(%s) must be positive", s.drain)
	}
	if s.maxCrashes <= 0 {
		refuse("WithMaxCrashes(%d) must be positive", s.maxCrashes)
	}
	if s.logger == nil || s.failureText == nil {
		refuse("WithLogger and WithFailureText take no nil")
	}
	return errors.Join(wrong...)
}
