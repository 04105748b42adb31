package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"io"
	"time"
)

type file struct {
	name    string
	mode    int64
	content []byte
}

func writeTar(out io.Writer, modTime time.Time, files []file) error {
	packed, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	writer := tar.NewWriter(packed)
	for _, each := range files {
		header := &tar.Header{Name: each.name, Mode: each.mode, Size: int64(len(each.content)), ModTime: modTime, Format: tar.FormatUSTAR}
		if err := writer.WriteHeader(header); err != nil {
			return err
		}
		if _, err := writer.Write(each.content); err != nil {
			return err
		}
	}
	if err := writer.Close(); err != nil {
		return err
	}
	return packed.Close()
}

func writeZip(out io.Writer, modTime time.Time, files []file) error {
	writer := zip.NewWriter(out)
	for _, each := range files {
		entry, err := writer.CreateHeader(&zip.FileHeader{Name: each.name, Method: zip.Deflate, Modified: modTime})
		if err != nil {
			return err
		}
		if _, err := entry.Write(each.content); err != nil {
			return err
		}
	}
	return writer.Close()
}
