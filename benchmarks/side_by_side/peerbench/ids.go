package main

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
)

const (
	resourceSpansField, scopeSpansField, spansField, spanIDField = 1, 2, 2, 2
	idBytes, idDigits                                            = 8, 16
)

var errNotProtobuf = errors.New("not protobuf")

// spanIDs calls mark with each span id of an ExportTraceServiceRequest. It looks for them and for
// nothing else.
func spanIDs(body []byte, mark func(uint64)) error {
	return eachField(body, resourceSpansField, func(resourceSpans []byte) error {
		return eachField(resourceSpans, scopeSpansField, func(scopeSpans []byte) error {
			return eachField(scopeSpans, spansField, func(span []byte) error {
				return eachField(span, spanIDField, func(id []byte) error {
					if len(id) != idBytes {
						return errNotProtobuf
					}
					mark(binary.BigEndian.Uint64(id))
					return nil
				})
			})
		})
	})
}

// eachField calls f with the content of every length-delimited field of that number.
func eachField(message []byte, number int, f func([]byte) error) error {
	for len(message) > 0 {
		tag, n := binary.Uvarint(message)
		if n <= 0 {
			return errNotProtobuf
		}
		content, rest, ok := cut(message[n:], tag&7)
		if !ok {
			return errNotProtobuf
		}
		if tag&7 == 2 && tag>>3 == uint64(number) {
			if err := f(content); err != nil {
				return err
			}
		}
		message = rest
	}
	return nil
}

// cut splits one value of a wire type from what follows it.
func cut(b []byte, wireType uint64) (content, rest []byte, ok bool) {
	size, at := uint64(0), 0
	switch wireType {
	case 0:
		_, size := binary.Uvarint(b)
		return nil, b[max(size, 0):], size > 0
	case 1:
		size = 8
	case 5:
		size = 4
	case 2:
		size, at = binary.Uvarint(b)
		if at <= 0 {
			return nil, nil, false
		}
	default:
		return nil, nil, false
	}
	if uint64(len(b)-at) < size {
		return nil, nil, false
	}
	end := at + int(size)
	return b[at:end], b[end:], true
}

// recordIDs calls mark with the last 16 hex digits of each value of field in a JSON body, and
// returns how many there are. A value without them is no number of a run.
func recordIDs(body []byte, field string, mark func(uint64)) int {
	key, found := []byte(`"`+field+`":"`), 0
	var raw [idBytes]byte
	for {
		at := bytes.Index(body, key)
		if at < 0 {
			return found
		}
		body = body[at+len(key):]
		end := bytes.IndexByte(body, '"')
		if end < 0 {
			return found
		}
		found++
		if end < idDigits {
			mark(0)
		} else if _, err := hex.Decode(raw[:], body[end-idDigits:end]); err != nil {
			mark(0)
		} else {
			mark(binary.BigEndian.Uint64(raw[:]))
		}
	}
}
