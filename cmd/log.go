package main

import (
	"github.com/go-logr/logr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	ctrlzap "sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// newLogger makes a logger that renders what it is given by WithValues when it has something to say. Each reconciliation has a
// logger with six values, which takes 6 KiB to render, and says nothing as a rule.
func newLogger(given *ctrlzap.Options) logr.Logger {
	lazy := func(core zapcore.Core) zapcore.Core { return lazyCore{core} }
	return ctrlzap.New(ctrlzap.UseFlagOptions(given), ctrlzap.RawZapOpts(zap.WrapCore(lazy)))
}

// lazyCore renders fields late, whatever number of times there are more.
type lazyCore struct{ zapcore.Core }

// With does not render the fields yet.
func (c lazyCore) With(fields []zapcore.Field) zapcore.Core {
	return lazyCore{zapcore.NewLazyWith(c.Core, fields)}
}
