package main

import (
	"github.com/go-logr/logr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	ctrlzap "sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// newLogger returns a logger that encodes the values of WithValues only when it writes a line. Each reconciliation has a logger
// with six values, which take 6 KiB to encode, and usually writes nothing.
func newLogger(given *ctrlzap.Options) logr.Logger {
	lazy := func(core zapcore.Core) zapcore.Core { return lazyCore{core} }
	return ctrlzap.New(ctrlzap.UseFlagOptions(given), ctrlzap.RawZapOpts(zap.WrapCore(lazy)))
}

// lazyCore defers the encoding of fields, even of nested loggers.
type lazyCore struct{ zapcore.Core }

func (c lazyCore) With(fields []zapcore.Field) zapcore.Core {
	return lazyCore{zapcore.NewLazyWith(c.Core, fields)}
}
