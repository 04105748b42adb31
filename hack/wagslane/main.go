// The program wagslane consumes messages by github.com/wagslane/go-rabbitmq, which `make bench-consumer` compares with Warren's library. It
// prints for how many seconds it did, from the first message to the last. The manager's module has no part in that dependency.
package main

import (
	"flag"
	"fmt"
	"log"
	"sync/atomic"
	"time"

	"github.com/wagslane/go-rabbitmq"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("wagslane: ")
	uri := flag.String("uri", "", "Where the broker is.")
	queue := flag.String("queue", "orders", "The queue to consume.")
	prefetch := flag.Int("prefetch", 10, "How many messages the broker sends ahead.")
	concurrency := flag.Int("concurrency", 1, "How many messages are handled at the same time.")
	count := flag.Int64("count", 0, "How many messages to consume.")
	flag.Parse()
	took, err := consume(*uri, *queue, *prefetch, *concurrency, *count)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(took.Seconds())
}

func consume(uri, queue string, prefetch, concurrency int, count int64) (time.Duration, error) {
	connection, err := rabbitmq.NewConn(uri)
	if err != nil {
		return 0, err
	}
	defer connection.Close()
	consumer, err := rabbitmq.NewConsumer(connection, queue, rabbitmq.WithConsumerOptionsQueueNoDeclare,
		rabbitmq.WithConsumerOptionsQOSPrefetch(prefetch), rabbitmq.WithConsumerOptionsConcurrency(concurrency))
	if err != nil {
		return 0, err
	}
	var handled, first atomic.Int64
	last := make(chan time.Time, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- consumer.Run(func(rabbitmq.Delivery) rabbitmq.Action {
			switch handled.Add(1) {
			case 1:
				first.Store(time.Now().UnixNano())
			case count:
				last <- time.Now()
			}
			return rabbitmq.Ack
		})
	}()
	select {
	case err := <-ended:
		return 0, err
	case end := <-last:
		consumer.Close()
		return end.Sub(time.Unix(0, first.Load())), nil
	}
}
