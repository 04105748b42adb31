package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// checkedOutput is an output that keeps the first error of a write, so that no command needs to check each write.
type checkedOutput struct {
	io.Writer

	err error
}

func (o *checkedOutput) Write(content []byte) (int, error) {
	n, err := o.Writer.Write(content)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// partOf returns the name of a file that is not complete.
func partOf(file string) string { return file + ".part" }

// writeFile writes a file that only its owner can read. The content gets its name when it is complete and on disk. Without force,
// writeFile does not replace a file that was created meanwhile, nor FILE.part, which can have the messages of an earlier export. With
// force, it replaces the file to which a link leads, and writes to a device or a pipe as it is.
func writeFile(name string, force bool, write func(out *os.File) error) error {
	if force {
		now, err := os.Stat(name)
		if err == nil && !now.Mode().IsRegular() {
			return writeAsIs(name, write)
		}
		if name, err = targetOf(name); err != nil {
			return err
		}
	}
	part := partOf(name)
	if err := checkAbsent(force, part); err != nil {
		return err
	}
	if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = write(file)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := checkAbsent(force, name); err != nil {
		return fmt.Errorf("%w. The content is in %s", err, part)
	}
	return os.Rename(part, name)
}

func writeAsIs(name string, write func(out *os.File) error) error {
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

// targetOf returns the file to which a name leads if it is a link.
func targetOf(name string) (string, error) {
	target, err := filepath.EvalSymlinks(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return target, err
	}
	if _, err := os.Lstat(name); err == nil {
		return "", fmt.Errorf("%s is a link to a file that does not exist: choose another name for --file", name)
	}
	return name, nil
}

// checkAbsent returns an error if one of the files exists, unless --force is given.
func checkAbsent(force bool, files ...string) error {
	if force {
		return nil
	}
	for _, file := range files {
		_, err := os.Lstat(file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		default:
			return fmt.Errorf("%s exists: choose another name for --file, or replace the file with --force", file)
		}
	}
	return nil
}
