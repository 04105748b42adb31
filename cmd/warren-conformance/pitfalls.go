package main

import (
	"slices"

	"github.com/warren-mq/warren/consumer/contract"
)

// pitfall is a mistake that can be seen from outside of a program.
type pitfall struct {
	name string
	// mistake describes a program that fails. docs/consumer/any-language.md has the same text.
	mistake string
	try     func(*trial)
	// strategies under which a program can make the mistake; all if empty.
	strategies []contract.Strategy
	// restarts says that the pitfall stops the broker.
	restarts bool
}

// copying are the strategies under which a program publishes copies.
var copying = []contract.Strategy{contract.StrategyPublish, contract.StrategyReject, contract.StrategyNone}

// retrying are the strategies under which a failed message comes again.
var retrying = []contract.Strategy{contract.StrategyPublish, contract.StrategyReject, contract.StrategyRequeue}

// pitfalls is the table that docs/consumer/any-language.md shows.
var pitfalls = []pitfall{
	{
		name: "acks-first", try: acksFirst,
		mistake: "acknowledges before the handler has returned: a crash loses the message",
	},
	{
		name: "acks-others", try: acksOthers,
		mistake: "acknowledges a message that another handler still has, by an acknowledgement of multiple messages",
	},
	{
		name: "wrong-attempts", try: wrongAttempts,
		mistake: "gives a failing message more or fewer attempts than the contract, or does not give it up into the dead-letter queue",
	},
	{
		name: "no-delay", try: noDelay, strategies: retrying,
		mistake: "handles a failed message again before its delay is over",
	},
	{
		name: "retries-permanent", try: retriesPermanent,
		mistake: "handles a permanent failure again, or hands an undecodable body to the handler without end",
	},
	{
		name: "forged-counts", try: forgedCounts,
		mistake: "trusts counts in headers that a producer can write: negative, text, or a delivery count of a first delivery",
	},
	{
		name: "blocks-on-hang", try: blocksOnHang,
		mistake: "handles no other message while one handler hangs",
	},
	{
		name: "unbounded-prefetch", try: unboundedPrefetch,
		mistake: "takes more messages than the prefetch while none is settled",
	},
	{
		name: "changes-copies", try: changesCopies, strategies: copying,
		mistake: "changes body, properties or headers of a copy, or leaves out what the copy must say of attempts and failure",
	},
	{
		name: "copies-too-much", try: copiesTooMuch, strategies: copying,
		mistake: "copies CC, BCC, expiration or user-id: the copy goes elsewhere, expires, or is refused",
	},
	{
		name: "loses-returned", try: losesReturned, strategies: copying,
		mistake: "acknowledges a message whose copy the broker returned, because no queue is bound to the route",
	},
	{
		name: "loses-refused", try: losesRefused, strategies: copying,
		mistake: "acknowledges a message whose copy the broker refused by a negative confirm",
	},
	{
		name: "acks-unconfirmed", try: acksUnconfirmed, strategies: copying,
		mistake: "acknowledges a message before the broker has confirmed its copy",
	},
	{
		name: "old-contract", try: oldContract, strategies: []contract.Strategy{contract.StrategyPublish},
		mistake: "does not read its contract again: it publishes copies to a delay tier that is gone",
	},
	{
		name: "forbidden-loops", try: forbiddenLoops, strategies: copying,
		mistake: "does not survive that the broker forbids its copies: it loses the message, ends, or connects and handles in a hot loop",
	},
	{
		name: "no-reconnect", try: noReconnect,
		mistake: "does not consume again after its connection was cut, or loses or repeats more than what was in hand",
	},
	{
		name: "second-consumer", try: secondConsumer,
		mistake: "has more than one consumer on the queue after it has connected again",
	},
	{
		name: "hot-reconnect", try: hotReconnect,
		mistake: "connects again without a pause while the broker refuses connections",
	},
	{
		name: "stale-acks", try: staleAcks,
		mistake: "settles on a new channel what an old one delivered: the same tag is another message there",
	},
	{
		name: "misses-stall", try: missesStall,
		mistake: "waits for ever on a connection that delivers nothing any more",
	},
	{
		name: "misses-cancel", try: missesCancel,
		mistake: "does not consume again after the broker has cancelled its consumer",
	},
	{
		name: "ignores-sigterm", try: ignoresSIGTERM,
		mistake: "does not end soon after SIGTERM while a handler hangs or the broker is away, or loses the message that the handler had",
	},
	{
		name: "drain-repeats", try: drainRepeats,
		mistake: "interrupts handlers at SIGTERM although they have time to finish, repeats messages, or ends with an error",
	},
	{
		name: "broker-restart", try: brokerRestart, restarts: true,
		mistake: "does not consume again after the broker was killed and started again, or loses messages",
	},
}

// appliesTo reports whether a program can make the mistake under a strategy.
func (p pitfall) appliesTo(strategy contract.Strategy) bool {
	return len(p.strategies) == 0 || slices.Contains(p.strategies, strategy)
}
