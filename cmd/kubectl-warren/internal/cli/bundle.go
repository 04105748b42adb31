package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"path"
	"time"

	"github.com/warren-mq/warren/cmd/kubectl-warren/internal/redact"
)

// bundle is a compressed archive in memory. Each file in it is redacted.
type bundle struct {
	content *bytes.Buffer
	gzip    *gzip.Writer
	tar     *tar.Writer
	now     time.Time
}

func newBundle(now time.Time) *bundle {
	b := &bundle{content: &bytes.Buffer{}, now: now}
	b.gzip = gzip.NewWriter(b.content)
	b.tar = tar.NewWriter(b.gzip)
	return b
}

func (b *bundle) addYAML(name string, value any) error {
	content, err := redact.YAML(value)
	if err != nil {
		return err
	}
	return b.add(name, content)
}

func (b *bundle) addLines(name string, lines []string) error {
	content := &bytes.Buffer{}
	for _, line := range lines {
		content.WriteString(redact.Text(line) + "\n")
	}
	return b.add(name, content.Bytes())
}

func (b *bundle) add(name string, content []byte) error {
	header := &tar.Header{Name: path.Join("warren-report", name), Mode: 0o600, Size: int64(len(content)), ModTime: b.now}
	if err := b.tar.WriteHeader(header); err != nil {
		return err
	}
	_, err := b.tar.Write(content)
	return err
}

// close returns the archive.
func (b *bundle) close() ([]byte, error) {
	if err := b.tar.Close(); err != nil {
		return nil, err
	}
	if err := b.gzip.Close(); err != nil {
		return nil, err
	}
	return b.content.Bytes(), nil
}
