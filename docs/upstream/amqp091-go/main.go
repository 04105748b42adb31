//go:build upstream

// Command amqp091-go shows three ways in which a server ends or stops a client of amqp091-go v1.16.0, and a nack that the client sees as
// an ack. See README.md beside it.
//
//	go run -tags upstream ./docs/upstream/amqp091-go undrained|drained|confirm|nack
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "give one of undrained, drained, confirm, nack")
		os.Exit(2)
	}
	switch os.Args[1] {
	case "undrained":
		undrained()
	case "drained":
		drained()
	case "confirm":
		confirm()
	case "nack":
		nack()
	}
	fmt.Println("not reproduced")
}

// undrained: nobody receives from the Go channel of NotifyBlocked while the connection is closed.
func undrained() {
	connection := dial(func(write func(...[]byte), received method) bool {
		if received == (method{10, 50}) { // connection.close is not answered
			write(bytes.Repeat(methodFrame(0, method{10, 60}, "memory"), 100))
			return true
		}
		return false
	})
	connection.NotifyBlocked(make(chan amqp.Blocking, 1))
	go func() { _ = connection.CloseDeadline(time.Now().Add(100 * time.Millisecond)) }()
	time.Sleep(20 * time.Second)
}

// drained: a goroutine receives until the library closes the Go channel. The server answers connection.close between two floods.
func drained() {
	flood := bytes.Repeat(methodFrame(0, method{10, 60}, "memory"), 1000)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		connection := dial(func(write func(...[]byte), received method) bool {
			if received == (method{10, 50}) {
				write(flood, methodFrame(0, method{10, 51}), flood)
				return true
			}
			return false
		})
		blocked := connection.NotifyBlocked(make(chan amqp.Blocking, 1))
		go func() {
			for range blocked {
			}
		}()
		_ = connection.Close()
	}
}

// confirm: the server confirms all messages up to a number that nobody has published, when one is.
func confirm() {
	connection := dial(func(write func(...[]byte), received method) bool {
		if received == (method{60, 40}) {
			write(methodFrame(1, method{60, 80}, uint64(math.MaxUint64-1), byte(1)))
			return true
		}
		return false
	})
	channel, err := connection.Channel()
	check(err)
	check(channel.Confirm(false))
	check(channel.Publish("", "q", false, false, amqp.Publishing{}))
	time.Sleep(100 * time.Millisecond) // the confirm arrives
	closed := make(chan error)
	go func() { closed <- connection.CloseDeadline(time.Now().Add(time.Second)) }()
	select {
	case <-closed:
	case <-time.After(6 * time.Second):
		fmt.Println("CloseDeadline has not returned 5 seconds after its deadline")
		os.Exit(1)
	}
}

// nack: the server refuses the second of three messages, and then confirms all up to the third, as RabbitMQ does.
func nack() {
	published := 0
	connection := dial(func(write func(...[]byte), received method) bool {
		if received != (method{60, 40}) {
			return false
		}
		if published++; published == 3 {
			write(methodFrame(1, method{60, 120}, uint64(2), byte(0)), methodFrame(1, method{60, 80}, uint64(3), byte(1)))
		}
		return true
	})
	channel, err := connection.Channel()
	check(err)
	check(channel.Confirm(false))
	confirms := channel.NotifyPublish(make(chan amqp.Confirmation, 3))
	for range 3 {
		check(channel.Publish("", "q", false, false, amqp.Publishing{}))
	}
	for range 3 {
		if confirm := <-confirms; confirm.DeliveryTag == 2 && confirm.Ack {
			fmt.Println("the refused message 2 is reported as confirmed")
			os.Exit(1)
		}
	}
}

// method is the number of a class and that of a method in it.
type method [2]uint16

// dial connects to a server that calls respond for each method. If respond returns false, the server sends its default answer, if it has
// one.
func dial(respond func(write func(...[]byte), received method) bool) *amqp.Connection {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	go func() {
		line, err := listener.Accept()
		check(err)
		_ = listener.Close()
		serve(line, respond)
	}()
	connection, err := amqp.DialConfig("amqp://guest:guest@"+listener.Addr().String(), amqp.Config{Heartbeat: time.Second})
	check(err)
	return connection
}

func serve(line net.Conn, respond func(write func(...[]byte), received method) bool) {
	defer func() { _ = line.Close() }()
	write := func(frames ...[]byte) { _, _ = line.Write(bytes.Join(frames, nil)) }
	from := bufio.NewReader(line)
	_, _ = io.CopyN(io.Discard, from, 8) // the protocol header
	write(methodFrame(0, method{10, 10}, byte(0), byte(9), uint32(0), uint32(5), []byte("PLAIN"), uint32(5), []byte("en_US")))
	for {
		head := make([]byte, 7)
		if _, err := io.ReadFull(from, head); err != nil {
			return
		}
		payload := make([]byte, binary.BigEndian.Uint32(head[3:])+1)
		if _, err := io.ReadFull(from, payload); err != nil {
			return
		}
		if head[0] != 1 {
			continue
		}
		received := method{binary.BigEndian.Uint16(payload), binary.BigEndian.Uint16(payload[2:])}
		if respond(write, received) {
			continue
		}
		switch received {
		case method{10, 11}: // start-ok
			write(methodFrame(0, method{10, 30}, uint16(2047), uint32(131072), uint16(1)))
		case method{10, 40}: // open
			write(methodFrame(0, method{10, 41}, ""))
		case method{10, 50}: // close
			write(methodFrame(0, method{10, 51}))
		case method{20, 10}: // channel.open
			write(methodFrame(1, method{20, 11}, uint32(0)))
		case method{85, 10}: // confirm.select
			write(methodFrame(1, method{85, 11}))
		}
	}
}

func methodFrame(channel uint16, id method, arguments ...any) []byte {
	payload, _ := binary.Append(nil, binary.BigEndian, []uint16{id[0], id[1]})
	for _, argument := range arguments {
		if text, ok := argument.(string); ok {
			payload = append(append(payload, byte(len(text))), text...)
			continue
		}
		payload, _ = binary.Append(payload, binary.BigEndian, argument)
	}
	frame := binary.BigEndian.AppendUint16([]byte{1}, channel)
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(payload)))
	return append(append(frame, payload...), 0xCE)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
