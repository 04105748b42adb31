package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/warren-mq/warren/consumer"
	"github.com/warren-mq/warren/consumer/contract"
)

// libraryProgram implements the protocol with the consumer library.
func libraryProgram() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	conn := consumer.NewConn(consumer.URI(os.Getenv("AMQP_URL")))
	jobs, err := consumer.New(conn, contract.File(os.Getenv("WARREN_CONTRACT")), consumer.Decode(decodeJob, handleJob),
		consumer.WithConcurrency(setting("WARREN_CONCURRENCY")),
		consumer.WithPrefetch(setting("WARREN_PREFETCH")),
		consumer.WithDrainTimeout(time.Duration(setting("WARREN_DRAIN_MILLISECONDS"))*time.Millisecond))
	if err != nil {
		return err
	}
	return jobs.Run(ctx)
}

func setting(name string) int {
	value, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		panic(name + ": " + err.Error())
	}
	return value
}

// job is a body such as "fail:2 17".
type job struct {
	verb     string
	argument int
	id       string
}

func decodeJob(d *consumer.Delivery) (job, error) { return parseJob(d.Raw.Body) }

func parseJob(body []byte) (job, error) {
	instruction, id, _ := strings.Cut(string(body), " ")
	verb, argument, _ := strings.Cut(instruction, ":")
	number, _ := strconv.Atoi(argument) // 0 for verbs without one
	switch verb {
	case "ok", "slow", "fail", "permanent", "hang", "crash":
		return job{verb, number, id}, nil
	}
	return job{}, fmt.Errorf("unknown instruction %q", verb)
}

func handleJob(ctx context.Context, m *consumer.Message[job]) error {
	fmt.Println("start", m.Body.id)
	first := m.Attempt() == 1 && !m.Raw.Redelivered
	switch {
	case m.Body.verb == "fail" && m.Attempt() <= m.Body.argument:
		return errors.New("failed as told")
	case m.Body.verb == "permanent":
		return consumer.Permanent(errors.New("permanent as told"))
	case m.Body.verb == "crash" && first:
		os.Exit(3)
	case m.Body.verb == "hang" && first:
		select {} // a handler that ignores its context
	case m.Body.verb == "slow":
		select {
		case <-time.After(time.Duration(m.Body.argument) * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	fmt.Println("done", m.Body.id)
	return nil
}
