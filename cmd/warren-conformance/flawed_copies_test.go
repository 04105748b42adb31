package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/warren-mq/warren/consumer/contract"
)

// copyOf returns the copy of a delivery.
func (p *rawProgram) copyOf(d amqp.Delivery, action contract.Action) amqp.Publishing {
	message := amqp.Publishing{
		Headers: withTables(action.Headers).(amqp.Table), ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: amqp.Persistent,
		Priority: d.Priority, CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, MessageId: d.MessageId, Timestamp: d.Timestamp,
		Type: d.Type, AppId: d.AppId, Body: d.Body,
	}
	switch p.fault {
	case dropsProperties:
		message = amqp.Publishing{Headers: amqp.Table{contract.HeaderRetryCount: action.Headers[contract.HeaderRetryCount]}, Body: d.Body}
	case keepsFourProperties:
		message.ContentEncoding, message.Priority, message.ReplyTo, message.Timestamp = "", 0, "", time.Time{}
	case copiesText:
		message.Body = bytes.ToValidUTF8(d.Body, []byte("\uFFFD"))
	case copiesPlainHeaders:
		maps.DeleteFunc(message.Headers, func(_ string, value any) bool { _, isTable := value.(amqp.Table); return isTable })
	case copiesDeaths:
		if deaths, died := d.Headers["x-death"]; died {
			message.Headers["x-death"] = deaths
		}
	case keepsOldFailure:
		for name, value := range d.Headers {
			if strings.HasPrefix(name, "x-failure-") {
				message.Headers[name] = value
			}
		}
	case copiesAll, retriesAllProperties:
		if action.GivenUp && p.fault == retriesAllProperties {
			break
		}
		message.Expiration, message.UserId = d.Expiration, d.UserId
		for name, value := range d.Headers {
			message.Headers[name] = cmp.Or[any](message.Headers[name], value)
		}
	}
	if header, missing := strings.CutPrefix(string(p.fault), without); missing {
		delete(message.Headers, header)
	}
	return message
}

func (p *rawProgram) routeOf(action contract.Action) contract.Route {
	tiers := p.contract.Load().Tiers
	switch {
	case p.fault == alwaysFirstTier && !action.GivenUp:
		return tiers[0].Route
	case p.fault == alwaysLastTier && !action.GivenUp:
		return tiers[len(tiers)-1].Route
	case p.fault == rotatesTiers && !action.GivenUp:
		failed := int(action.Headers[contract.HeaderRetryCount].(int64))
		return tiers[(failed-1)%len(tiers)].Route
	}
	return *action.Route
}

func (p *rawProgram) isMandatory(action contract.Action) bool {
	return p.fault != notMandatory && (p.fault != parksWithoutMandatory || !action.GivenUp)
}

// copier publishes copies on its own connection, one at a time.
type copier struct {
	mu          sync.Mutex
	connection  *amqp.Connection
	channel     *amqp.Channel
	returned    chan amqp.Return
	blocked     atomic.Bool     // the broker has an alarm
	flights     []*flight       // of returnsToOldest
	returnedIDs map[string]bool // of returnsByMessageID
	confirms    chan bool       // of readsNextConfirm
}

// flight is a copy whose confirm has not arrived.
type flight struct{ returned bool }

// publish publishes a copy and reports whether the broker accepted it. After an error, the next try opens another connection.
func (c *copier) publish(p *rawProgram, message amqp.Publishing, route contract.Route, mandatory bool) (accepted bool, err error) {
	switch p.fault {
	case returnsToOldest, returnsByMessageID, readsNextConfirm:
		return c.publishAtOnce(p, message, route)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch p.fault {
	case keepsCopyChannels:
		c.channel = nil
	case connectsForEachCopy, connectsInLoop:
		if c.channel = nil; c.connection != nil {
			_ = c.connection.Close()
		}
	}
	accepted, err = c.tryToPublish(p, message, route, mandatory)
	for err != nil && p.fault == opensWithoutDelay {
		c.channel = nil
		accepted, err = c.tryToPublish(p, message, route, mandatory)
	}
	if err == nil {
		return accepted, nil
	}
	if p.fault == trustsLostConfirms {
		err, accepted = nil, true
	}
	c.channel = nil
	if c.connection != nil && p.fault != copiesTwice && p.fault != sharesConnection {
		_ = c.connection.CloseDeadline(time.Now().Add(5 * time.Second))
		c.connection = nil
	}
	return accepted, err
}

func (c *copier) tryToPublish(p *rawProgram, message amqp.Publishing, route contract.Route, mandatory bool) (accepted bool, err error) {
	if c.channel == nil {
		if err := c.open(p); err != nil {
			return false, err
		}
	}
	confirm, err := c.channel.PublishWithDeferredConfirm(route.Exchange, route.RoutingKey, mandatory, false, message)
	if err != nil || p.fault == noConfirms {
		return err == nil, err
	}
	if err := c.await(p, confirm); err != nil {
		return false, err
	}
	select {
	case <-c.returned: // basic.return arrives before the confirm
		return false, nil
	default:
		isRetry := route != *p.contract.Load().Park
		return confirm.Acked() || p.fault == ignoresNegative || p.fault == retriesRefused && isRetry, nil
	}
}

// publishAtOnce does not wait for the confirms of other copies. It takes a return for the oldest copy without a confirm, or for the
// copies with the same message ID, or it takes the next confirm for its own.
func (c *copier) publishAtOnce(p *rawProgram, message amqp.Publishing, route contract.Route) (accepted bool, err error) {
	c.mu.Lock()
	if c.channel == nil {
		err = c.open(p)
	}
	var confirm *amqp.DeferredConfirmation
	mine := &flight{}
	if err == nil {
		confirm, err = c.channel.PublishWithDeferredConfirm(route.Exchange, route.RoutingKey, true, false, message)
		c.flights = append(c.flights, mine)
		delete(c.returnedIDs, message.MessageId)
	}
	c.mu.Unlock()
	if err != nil {
		return false, err
	}
	if p.fault == readsNextConfirm {
		go func() { c.confirms <- confirm.Wait() }() // NotifyPublish would sort the confirms
		mine.returned = !<-c.confirms
	} else {
		<-confirm.Done()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.returned) > 0 {
		returned := <-c.returned
		switch p.fault {
		case returnsToOldest:
			c.flights[0].returned = true
		case returnsByMessageID:
			c.returnedIDs[returned.MessageId] = true
		}
	}
	if c.returnedIDs[message.MessageId] {
		mine.returned = true
	}
	c.flights = slices.DeleteFunc(c.flights, func(each *flight) bool { return each == mine })
	return !mine.returned, nil
}

func (c *copier) open(p *rawProgram) (err error) {
	if p.fault == sharesConnection {
		p.mu.Lock()
		c.connection = p.shared
		p.mu.Unlock()
	}
	if c.connection == nil || c.connection.IsClosed() {
		if c.connection, err = p.dial(); err != nil {
			return err
		}
		blocked := c.connection.NotifyBlocked(make(chan amqp.Blocking, 1))
		go func() {
			for notice := range blocked {
				c.blocked.Store(notice.Active)
			}
			c.blocked.Store(false)
		}()
	}
	channel, err := c.connection.Channel()
	if err != nil {
		return err
	}
	c.channel, c.returned, c.returnedIDs = channel, channel.NotifyReturn(make(chan amqp.Return, 16)), map[string]bool{}
	if p.fault == readsNextConfirm {
		c.confirms = make(chan bool)
	}
	return channel.Confirm(false)
}

// await waits for a confirm, without a timeout during an alarm.
func (c *copier) await(p *rawProgram, confirm *amqp.DeferredConfirmation) error {
	const timeout, tick = 5 * time.Second, 100 * time.Millisecond
	for waited := time.Duration(0); waited < timeout; waited += tick {
		select {
		case <-confirm.Done():
			if c.channel.IsClosed() {
				return fmt.Errorf("the channel was closed: %w", amqp.ErrClosed)
			}
			return nil
		case <-time.After(tick):
		}
		if c.blocked.Load() && p.fault != ignoresBlocked {
			waited = 0
		}
	}
	return context.DeadlineExceeded
}

// plain converts tables of amqp091-go to maps, which package contract reads.
func plain(value any) any {
	switch value := value.(type) {
	case amqp.Table:
		table := make(map[string]any, len(value))
		for name, each := range value {
			table[name] = plain(each)
		}
		return table
	case []any:
		list := slices.Clone(value)
		for i, each := range list {
			list[i] = plain(each)
		}
		return list
	}
	return value
}

// withTables converts maps to tables of amqp091-go.
func withTables(value any) any {
	switch value := value.(type) {
	case map[string]any:
		table := make(amqp.Table, len(value))
		for name, each := range value {
			table[name] = withTables(each)
		}
		return table
	case []any:
		list := slices.Clone(value)
		for i, each := range list {
			list[i] = withTables(each)
		}
		return list
	}
	return value
}
