package deadletterclient

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/letters"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/printable"
)

// CopyExport copies the whole lines of an export, and returns how many messages came, and the last line. It is an error if that line
// does not come, tells of another number of messages, or of some that could not be seen.
func CopyExport(out io.Writer, in io.Reader) (count int64, end v1alpha1.ExportEnd, err error) {
	lines := bufio.NewReaderSize(in, 64<<10)
	var last []byte
	for {
		line, failure := lines.ReadBytes('\n')
		if failure != nil {
			err = failure
			break
		}
		if last != nil {
			count++
		}
		last = line
		if _, err := out.Write(printable.JSON(line)); err != nil {
			return count, end, err
		}
	}
	if json.Unmarshal(bytes.TrimSpace(last), &end) == nil && end.Kind == v1alpha1.KindExportEnd {
		if end.Count != count {
			return count, end, fmt.Errorf("%d of %d messages have come", count, end.Count)
		}
		return count, end, missing(end)
	}
	if last != nil {
		count++
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return count, v1alpha1.ExportEnd{}, fmt.Errorf("it broke off: %w", err)
}

// missing says why an export that has come to its end lacks messages.
func missing(end v1alpha1.ExportEnd) error {
	switch {
	case end.Error != "":
		return errors.New(end.Error)
	case end.Partial:
		return errors.New(letters.PartialText(end.PartialReason))
	}
	return nil
}
