// Package program lets a program use packages that are written for tests, such as package brokers.
package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
)

// Program replaces testing.T in a program. It implements brokers.TB.
type Program struct {
	ctx      context.Context
	cleanups []func()
	err      error
}

// Run calls body in a goroutine, and then the functions that body passed to Cleanup, the last one first. It returns the error of
// body, or the text that body passed to Fatal. Body must call Fatal in its own goroutine.
func Run(ctx context.Context, body func(*Program) error) error {
	ctx, cancel := context.WithCancel(ctx)
	p := &Program{ctx: ctx}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer p.cleanUp()
		defer cancel()
		p.err = body(p)
	}()
	<-ended
	return p.err
}

// cleanUp calls each function even if another one calls Fatal.
func (p *Program) cleanUp() {
	for _, each := range p.cleanups {
		defer each()
	}
}

// Context returns a context that ends with the context of Run, and before the cleanups begin.
func (p *Program) Context() context.Context { return p.ctx }

// Cleanup adds a function that runs after body.
func (p *Program) Cleanup(function func()) { p.cleanups = append(p.cleanups, function) }

// TempDir creates a directory that is removed after body.
func (p *Program) TempDir() string {
	folder, err := os.MkdirTemp("", "warren-")
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = os.RemoveAll(folder) })
	return folder
}

// Fatal ends body with an error.
func (p *Program) Fatal(text ...any) {
	p.err = errors.Join(p.err, errors.New(fmt.Sprint(text...)))
	runtime.Goexit()
}

// Fatalf is Fatal with a format.
func (p *Program) Fatalf(format string, arguments ...any) { p.Fatal(fmt.Sprintf(format, arguments...)) }

// Helper does nothing, because errors have no line numbers.
func (p *Program) Helper() {}
