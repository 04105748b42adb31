package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/warren-mq/warren/consumer/contract"
)

// Option configures a Consumer. Options that are not given have the defaults that their documentation names.
type Option func(*settings)

type settings struct {
	concurrency, prefetch int
	connPrefetch          int // the default of the Conn; 0 is none
	timeout, drain        time.Duration
	middleware            []Middleware
	limiter               Limiter
	observers             []Observer
	logger                *slog.Logger
	failureText           func(error) string
	maxCrashes            int
	breakAfter            int // failures in a row
	probeInterval         time.Duration
	brokerTimeout         time.Duration // RabbitMQ's consumer timeout for the queue

	handle HandleFunc // decodes the body and calls the handler, inside the middleware
	batch  *batching  // nil if the handler gets messages one by one
}

// Defaults of the options.
const (
	defaultConcurrency  = 10
	defaultDrainTimeout = 20 * time.Second
	// brokerTimeout is RabbitMQ's default consumer timeout.
	brokerTimeout = 30 * time.Minute
)

// WithConcurrency sets how many messages, or batches, are handled at the same time. The default, also for 0, is 10, or 1 for batches
// and for a single active consumer.
func WithConcurrency(n int) Option { return func(s *settings) { s.concurrency = n } }

// WithPrefetch sets how many unacked messages the broker sends, from the concurrency to 65535. The default, also for 0, is twice
// the concurrency. For a single active consumer and under the strategy Requeue it is the concurrency, because there a crash uses an
// attempt of each prefetched message. With NewBatch, the concurrency counts as the number of batches times their size.
func WithPrefetch(n int) Option { return func(s *settings) { s.prefetch = n } }

// WithTimeout sets how long a handler may take before its context ends with ErrTimeout. It must be at most nine tenths of the broker's
// consumer timeout, which begins when the broker sends the message. The default, also for 0, is four fifths of the consumer
// timeout, divided by the number of prefetched messages per handler: 12 minutes for a consumer timeout of 30 minutes and a
// prefetch of twice the concurrency.
func WithTimeout(d time.Duration) Option { return func(s *settings) { s.timeout = d } }

// WithDrainTimeout sets how long handlers may run after the context of Run ended. It must be positive. The default is 20 s. Keep
// it 10 s below terminationGracePeriodSeconds. The consumer also drains before it uses a changed contract, pauses, or returns to the shared
// connection; see Conn.
func WithDrainTimeout(d time.Duration) Option { return func(s *settings) { s.drain = d } }

// HandleFunc handles a delivery: it decodes the body and calls the handler.
type HandleFunc func(context.Context, *Delivery) error

// Middleware wraps the handling of a delivery.
type Middleware func(next HandleFunc) HandleFunc

// WithMiddleware adds middleware around the handler. Middleware must not be nil. The first is the outermost. Several calls add up.
func WithMiddleware(middleware ...Middleware) Option {
	return func(s *settings) { s.middleware = append(s.middleware, middleware...) }
}

// AckAlways is middleware for work that is not worth a second attempt: it turns each error of the handler into Discard. That
// includes Defer, so a deferred message is not delivered again. A panic and a body that cannot be decoded are still failures.
func AckAlways(next HandleFunc) HandleFunc {
	return func(ctx context.Context, d *Delivery) error {
		err := next(ctx, d)
		if err == nil || errors.As(err, new(undecodable)) {
			return err
		}
		return Discard(err)
	}
}

// Limiter delays messages before they are handled, for example to limit a rate or to share a limit between consumers.
type Limiter interface {
	// Acquire waits until one message, or one batch, may be handled, or until ctx ends. If it returns an error before ctx ends, the
	// consumer calls it again after one second. The consumer calls release once the message is settled: after its ack, or after the
	// broker has confirmed its copy.
	Acquire(ctx context.Context) (release func(), err error)
}

// LimiterFunc is a function that implements Limiter.
type LimiterFunc func(ctx context.Context) (release func(), err error)

// Acquire calls the function.
func (f LimiterFunc) Acquire(ctx context.Context) (release func(), err error) { return f(ctx) }

// WithLimiter makes the consumer call the limiter before it handles a message. The default is no limiter.
func WithLimiter(limiter Limiter) Option { return func(s *settings) { s.limiter = limiter } }

// WithObserver adds an observer. Several calls add up.
func WithObserver(observer Observer) Option {
	return func(s *settings) { s.observers = append(s.observers, observer) }
}

// Options combines several options into one.
func Options(options ...Option) Option {
	return func(s *settings) {
		for _, option := range options {
			option(s)
		}
	}
}

// WithLogger sets the logger, which must not be nil. The default is slog.Default.
func WithLogger(logger *slog.Logger) Option { return func(s *settings) { s.logger = logger } }

// WithFailureText sets the function that makes the header x-failure-message from an error, for example to leave out secrets. It
// must not be nil. The default is the text of the error.
func WithFailureText(text func(error) string) Option {
	return func(s *settings) { s.failureText = text }
}

// WithMaxCrashes sets after how many deliveries without success or failure a message goes to the dead-letter queue. It must be
// positive. The default is 20, see contract.DefaultMaxCrashes.
func WithMaxCrashes(n int) Option { return func(s *settings) { s.maxCrashes = n } }

// apply returns the settings without the defaults that depend on the contract.
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

// settingsOf returns the settings for a contract, with all defaults, or an error for each option that does not fit.
func settingsOf(options []Option, current contract.Contract) (*settings, error) {
	s := apply(options)
	if s.concurrency == 0 {
		s.concurrency = defaultConcurrency
		if current.SingleActiveConsumer || s.batch != nil {
			s.concurrency = 1
		}
	}
	if s.prefetch == 0 {
		s.prefetch = max(cmp.Or(s.connPrefetch, 2*s.atOnce()), s.atOnce())
		if current.Strategy == contract.StrategyRequeue || current.SingleActiveConsumer {
			s.prefetch = s.atOnce()
		}
	}
	limit := brokerTimeout
	if current.ConsumerTimeout != nil {
		limit = time.Duration(*current.ConsumerTimeout)
	}
	s.brokerTimeout = limit
	if s.timeout == 0 && s.atOnce() > 0 {
		waves := (s.prefetch + s.atOnce() - 1) / s.atOnce()
		s.timeout = limit / 5 * 4 / time.Duration(max(waves, 1))
	}
	return s, s.validate(limit)
}

// returnDeadline returns when an unsettled message must go back to the queue. At the consumer timeout the broker would take back
// all messages of the channel.
func (s *settings) returnDeadline(d *Delivery) time.Time {
	return d.arrived.Add(s.brokerTimeout - s.brokerTimeout/20)
}

// latestStart returns when the handling of a message must begin, so that the handler can use its whole timeout before
// returnDeadline.
func (s *settings) latestStart(d *Delivery) time.Time { return d.arrived.Add(s.maxWait()) }

// maxWait returns how long a message may wait for its handler.
func (s *settings) maxWait() time.Duration { return s.brokerTimeout - s.brokerTimeout/20 - s.timeout }

// atOnce returns how many messages are handled at the same time.
func (s *settings) atOnce() int {
	if s.batch != nil {
		return s.concurrency * s.batch.size
	}
	return s.concurrency
}

func (s *settings) validate(limit time.Duration) error {
	var wrong []error
	refuse := func(format string, arguments ...any) {
		wrong = append(wrong, fmt.Errorf("consumer: "+format, arguments...))
	}
	if s.concurrency < 0 {
		refuse("WithConcurrency(%d) must not be negative", s.concurrency)
	}
	const maxPrefetch = 65535
	if s.connPrefetch < 0 || s.connPrefetch > maxPrefetch {
		refuse("WithDefaultPrefetch(%d) must be between 0 and %d", s.connPrefetch, maxPrefetch)
	} else if s.prefetch < s.atOnce() || s.prefetch > maxPrefetch {
		refuse("WithPrefetch(%d) must be between the concurrency, %d, and %d", s.prefetch, s.atOnce(), maxPrefetch)
	}
	longest := limit - limit/10
	switch {
	case s.timeout < 0 || s.timeout > longest:
		refuse("WithTimeout(%s) must be at most %s, nine tenths of the consumer timeout of the broker", s.timeout, longest)
	case s.batch != nil && (s.batch.size < 1 || s.batch.wait <= 0 || s.batch.wait > s.maxWait()/2):
		refuse("NewBatch with a size of %d and a wait of %s needs a size of at least 1 and a wait of at most %s. "+
			"This is half of the time that WithTimeout leaves of the consumer timeout", s.batch.size, s.batch.wait, s.maxWait()/2)
	}
	if s.drain <= 0 {
		refuse("WithDrainTimeout(%s) must be positive", s.drain)
	}
	if s.maxCrashes <= 0 {
		refuse("WithMaxCrashes(%d) must be positive", s.maxCrashes)
	}
	if s.breakAfter < 0 || s.breakAfter > 0 && s.probeInterval <= 0 {
		refuse("WithBreaker(%d, %s) must be positive", s.breakAfter, s.probeInterval)
	}
	if s.logger == nil || s.failureText == nil {
		refuse("WithLogger and WithFailureText must not be given nil")
	}
	if slices.ContainsFunc(s.middleware, func(wrap Middleware) bool { return wrap == nil }) {
		refuse("WithMiddleware must not be given nil")
	}
	return errors.Join(wrong...)
}
