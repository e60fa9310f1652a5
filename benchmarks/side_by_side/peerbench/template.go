package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
)

// idBase is the highest byte of every number that stands in a body (benchmarks/bodies.py).
const idBase = uint64(0xA1) << 56

// Template is a request that is serialised once; each copy gets numbers of its own, in place.
type Template struct {
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers"`
	Body    []byte            `json:"body"`
	Items   int               `json:"items"`
	Patches [][3]int          `json:"patches"` // offset, item, hex digits (0: eight bytes, big endian)
}

func readTemplate(path string) (*Template, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	t := &Template{}
	if err := json.Unmarshal(content, t); err != nil {
		return nil, err
	}
	return t, t.check()
}

func (t *Template) check() error {
	if t.Items < 1 {
		return fmt.Errorf("a template has at least one item, not %d", t.Items)
	}
	for _, p := range t.Patches {
		width := p[2]
		if width == 0 {
			width = 8
		}
		if p[0] < 0 || p[1] < 0 || p[1] >= t.Items || p[2] < 0 || p[2] > 32 || p[0]+width > len(t.Body) {
			return fmt.Errorf("patch %v does not fit into %d bytes and %d items", p, len(t.Body), t.Items)
		}
	}
	return nil
}

// number writes the numbers from first on into body, a copy of the template's.
func (t *Template) number(body []byte, first uint64) {
	var raw [16]byte
	var digits [32]byte
	for _, p := range t.Patches {
		binary.BigEndian.PutUint64(raw[8:], idBase|(first+uint64(p[1])))
		if p[2] == 0 {
			copy(body[p[0]:], raw[8:])
			continue
		}
		hex.Encode(digits[:], raw[:])
		copy(body[p[0]:], digits[32-p[2]:])
	}
}

// compressed are requests k = 0, 1, ... as gzip, built before the run.
func (t *Template) compressed(first, requests uint64) ([][]byte, error) {
	body := bytes.Clone(t.Body)
	made := make([][]byte, 0, requests)
	for k := range requests {
		t.number(body, first+k*uint64(t.Items))
		var out bytes.Buffer
		writer, err := gzip.NewWriterLevel(&out, gzip.DefaultCompression)
		if err != nil {
			return nil, err
		}
		if _, err := writer.Write(body); err != nil {
			return nil, err
		}
		if err := writer.Close(); err != nil {
			return nil, err
		}
		made = append(made, out.Bytes())
	}
	return made, nil
}
