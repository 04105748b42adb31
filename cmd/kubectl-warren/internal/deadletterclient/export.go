package deadletterclient

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/warren-mq/warren/api/deadletters/v1alpha1"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/deadlettertext"
	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/printable"
)

// CopyExport copies the whole lines of an export. It returns the number of messages and the last line. It returns an error if the
// last line is missing, has a different count, or reports missing messages.
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
			return count, end, fmt.Errorf("received %d of %d messages", count, end.Count)
		}
		return count, end, missing(end)
	}
	if last != nil {
		count++
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return count, v1alpha1.ExportEnd{}, fmt.Errorf("it was truncated: %w", err)
}

// missing returns why a finished export lacks messages.
func missing(end v1alpha1.ExportEnd) error {
	switch {
	case end.Error != "":
		return errors.New(end.Error)
	case end.Partial:
		return errors.New(deadlettertext.PartialText(end.PartialReason))
	}
	return nil
}
