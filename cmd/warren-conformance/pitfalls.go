package main

import (
	"slices"

	"github.com/warren-mq/warren/consumer/contract"
)

// pitfall is a mistake of a program that can be observed from outside.
type pitfall struct {
	name string
	// mistake describes a program that fails. docs/consumer/any-language.md has the same text.
	mistake string
	// rules are the numbers of the rules in docs/consumer/any-language.md that the mistake breaks; empty if it breaks none of them.
	rules string
	try   func(*trial)
	// strategies are the strategies under which a program can make the mistake; empty for all.
	strategies []contract.Strategy
	// alone reports whether the trial disturbs all clients of the broker, so that it needs a private broker for itself.
	alone bool
	// pauses reports whether only programs that follow the pauses of the contract can make the mistake.
	pauses bool
}

// copyStrategies are the strategies under which a program publishes copies.
var copyStrategies = []contract.Strategy{contract.StrategyPublish, contract.StrategyReject, contract.StrategyNone}

// retryStrategies are the strategies under which a failed message is delivered again.
var retryStrategies = []contract.Strategy{contract.StrategyPublish, contract.StrategyReject, contract.StrategyRequeue}

// pitfalls is the table in docs/consumer/any-language.md.
var pitfalls = []pitfall{
	{
		name: "acks-first", rules: "1", try: acksFirst,
		mistake: "acknowledges a message before its handler has returned, so a crash loses the message",
	},
	{
		name: "acks-others", rules: "1", try: acksOthers,
		mistake: "settles, with `multiple`, a message whose handler still runs, or settles a message twice",
	},
	{
		name: "wrong-attempts", try: wrongAttempts,
		mistake: "gives a failing message more or fewer attempts than the contract, does not park it, or does not acknowledge it",
	},
	{
		name: "no-delay", try: noDelay, strategies: retryStrategies,
		mistake: "handles a failed message again before its delay is over or long after it, for example always with the same delay tier",
	},
	{
		name: "retries-permanent", try: retriesPermanent,
		mistake: "retries a permanent failure, or requeues an undecodable message",
	},
	{
		name: "forged-counts", rules: "10", try: forgedCounts,
		mistake: "trusts counts of another queue or of a producer: negative numbers, text, or a delivery count on a first delivery",
	},
	{
		name: "no-crash-guard", try: noCrashGuard, strategies: copyStrategies,
		mistake: "handles a message after 20 deliveries without a result, or parks one after fewer, or because it was often returned",
	},
	{
		name: "blocks-on-hang", try: blocksOnHang,
		mistake: "handles no other message while one handler hangs",
	},
	{
		name: "blocks-heartbeats", rules: "8", try: blocksHeartbeats,
		mistake: "sends no heartbeats while a handler runs, so RabbitMQ closes the connection and delivers the message again",
	},
	{
		name: "holds-too-long", rules: "13", try: holdsTooLong, strategies: copyStrategies,
		mistake: "holds a message whose copy is not accepted for longer than the consumer timeout, so RabbitMQ cancels the consumer",
	},
	{
		name: "unbounded-prefetch", rules: "9", try: unboundedPrefetch,
		mistake: "receives more unsettled messages than the prefetch, or handles more at a time than its concurrency",
	},
	{
		name: "breaks-order", rules: "9, 12", try: breaksOrder,
		mistake: "handles messages of a single active consumer in another order or several at a time, also when another process takes over",
	},
	{
		name: "changes-copies", try: changesCopies, strategies: copyStrategies,
		mistake: "changes body, properties or headers of a copy, or omits the headers about attempts, failure and the copy",
	},
	{
		name: "copies-too-much", rules: "11", try: copiesTooMuch, strategies: copyStrategies,
		mistake: "copies CC, expiration, user-id, `x-death` or a failure in another queue: the copy is misrouted, expires, or is refused",
	},
	{
		name: "loses-returned", rules: "3, 5", try: losesReturned, strategies: copyStrategies,
		mistake: "acknowledges a message whose copy the broker returned, even if others are accepted, or publishes again in a hot loop",
	},
	{
		name: "loses-refused", rules: "3, 5", try: losesRefused, strategies: copyStrategies,
		mistake: "acknowledges a message whose copy a full queue refused, even if others are accepted, or publishes again in a hot loop",
	},
	{
		name: "acks-unconfirmed", rules: "3", try: acksUnconfirmed, strategies: copyStrategies,
		mistake: "acknowledges a message before the broker has confirmed its copy, for example on SIGTERM",
	},
	{
		name: "new-copy-ids", rules: "4", try: newCopyIDs, strategies: copyStrategies,
		mistake: "does not publish a copy again after its connection was lost before the confirm, or gives it another `x-copy-id`",
	},
	{
		name: "two-channels", rules: "4", try: twoChannels, strategies: copyStrategies,
		mistake: "publishes an unconfirmed copy again while the channel of the first attempt is still open, or never publishes it again",
	},
	{
		name: "leaks-channels", try: leaksChannels, strategies: copyStrategies,
		mistake: "opens a connection for each copy, or a channel that it does not close",
	},
	{
		name: "old-contract", try: oldContract, strategies: []contract.Strategy{contract.StrategyPublish},
		mistake: "does not read its contract again, and publishes copies to a deleted delay tier",
	},
	{
		name: "forbidden-loops", rules: "5", try: forbiddenLoops, strategies: copyStrategies,
		mistake: "loses the message, exits, or tries again in a hot loop when the broker forbids publishing its copy",
	},
	{
		name: "no-reconnect", rules: "7", try: noReconnect,
		mistake: "does not consume again after a lost connection, loses messages, copies them, or repeats more than the unsettled ones",
	},
	{
		name: "second-consumer", rules: "7", try: secondConsumer,
		mistake: "has more consumers after a reconnect than before, or has none and polls with `basic.get`",
	},
	{
		name: "hot-reconnect", rules: "7", try: hotReconnect,
		mistake: "reconnects without a delay while the broker is down, or stops trying if the broker is down at the start",
	},
	{
		name: "hangs-on-connect", rules: "8", try: hangsOnConnect,
		mistake: "waits without a limit for a broker that accepts its connection and does not answer",
	},
	{
		name: "stale-acks", rules: "2", try: staleAcks,
		mistake: "settles a delivery on a newer channel, where its tag belongs to another message",
	},
	{
		name: "misses-stall", rules: "8", try: missesStall,
		mistake: "does not notice a stalled connection",
	},
	{
		name: "misses-cancel", rules: "7", try: missesCancel,
		mistake: "does not consume again after the broker cancelled its consumer or closed only its channel",
	},
	{
		name: "ignores-sigterm", rules: "12", try: ignoresSIGTERM,
		mistake: "does not exit soon after SIGTERM if a handler hangs or the broker is unreachable, or loses the handler's message",
	},
	{
		name: "drain-repeats", rules: "12", try: drainRepeats,
		mistake: "interrupts handlers on SIGTERM although they have time to finish, repeats messages, or exits with an error",
	},
	{
		name: "ignores-pause", try: ignoresPause, pauses: true,
		mistake: "consumes during a pause, does not consume after it, or subscribes without the argument `x-warren-contract`",
	},
	{
		name: "stops-in-alarm", rules: "4, 6", try: stopsInAlarm, strategies: copyStrategies, alone: true,
		mistake: "handles or acknowledges nothing during a memory or disk alarm, or publishes the same copy several times",
	},
	{
		name: "broker-restart", rules: "7", try: brokerRestart, alone: true,
		mistake: "does not consume again after a restart of the broker, or loses messages",
	},
}

// appliesTo reports whether a program can make the mistake under a strategy.
func (p pitfall) appliesTo(strategy contract.Strategy) bool {
	return len(p.strategies) == 0 || slices.Contains(p.strategies, strategy)
}
