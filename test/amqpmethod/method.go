// Package amqpmethod names methods of AMQP 0-9-1, for tests that read or write frames.
package amqpmethod

import "encoding/binary"

// Method is a method of AMQP 0-9-1. See section 1 of amqp0-9-1.xml.
type Method struct{ Class, ID uint16 }

// Of returns the method of a method frame, from the frame's payload.
func Of(payload []byte) Method {
	return Method{Class: binary.BigEndian.Uint16(payload), ID: binary.BigEndian.Uint16(payload[2:])}
}

// The methods that tests use.
var (
	ConnectionStart   = Method{10, 10}
	ConnectionStartOK = Method{10, 11}
	ConnectionTune    = Method{10, 30}
	ConnectionOpen    = Method{10, 40}
	ConnectionOpenOK  = Method{10, 41}
	ConnectionClose   = Method{10, 50}
	ConnectionCloseOK = Method{10, 51}
	ConnectionBlocked = Method{10, 60} // an extension of RabbitMQ

	ChannelOpen    = Method{20, 10}
	ChannelOpenOK  = Method{20, 11}
	ChannelFlow    = Method{20, 20}
	ChannelClose   = Method{20, 40}
	ChannelCloseOK = Method{20, 41}

	ExchangeDeclare   = Method{40, 10}
	ExchangeDeclareOK = Method{40, 11}
	ExchangeDelete    = Method{40, 20}
	ExchangeBind      = Method{40, 30}
	ExchangeUnbind    = Method{40, 40}

	QueueDeclare   = Method{50, 10}
	QueueDeclareOK = Method{50, 11}
	QueueBind      = Method{50, 20}
	QueueBindOK    = Method{50, 21}
	QueuePurge     = Method{50, 30}
	QueueDelete    = Method{50, 40}
	QueueDeleteOK  = Method{50, 41}
	QueueUnbind    = Method{50, 50}
	QueueUnbindOK  = Method{50, 51}

	BasicQos       = Method{60, 10}
	BasicQosOK     = Method{60, 11}
	BasicConsume   = Method{60, 20}
	BasicConsumeOK = Method{60, 21}
	BasicCancel    = Method{60, 30}
	BasicCancelOK  = Method{60, 31}
	BasicPublish   = Method{60, 40}
	BasicReturn    = Method{60, 50}
	BasicDeliver   = Method{60, 60}
	BasicGet       = Method{60, 70}
	BasicGetOK     = Method{60, 71}
	BasicGetEmpty  = Method{60, 72}
	BasicAck       = Method{60, 80} // of a consumer; also the broker's confirm
	BasicReject    = Method{60, 90}
	BasicNack      = Method{60, 120}

	ConfirmSelect   = Method{85, 10}
	ConfirmSelectOK = Method{85, 11}
)
