package plugin

import (
	"bytes"
	"sync"
)

// lines are the lines that a process has printed.
type lines struct {
	lock   sync.Mutex
	buffer bytes.Buffer
}

func (l *lines) Write(text []byte) (int, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.buffer.Write(text)
}

func (l *lines) String() string {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.buffer.String()
}
