package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
)

const shownBytes = 200

// answer is one HTTP/1.1 response; text is the start of its body where the status is not 200.
type answer struct {
	status int
	text   string
	closes bool
}

func readAnswer(r *bufio.Reader) (answer, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return answer{}, err
	}
	if len(line) < 12 {
		return answer{}, fmt.Errorf("no HTTP answer: %q", line)
	}
	status, err := strconv.Atoi(string(line[9:12]))
	if err != nil {
		return answer{}, err
	}
	got := answer{status: status}
	length, err := readHeaders(r, &got)
	if err != nil {
		return got, err
	}
	if status == 200 {
		_, err = r.Discard(length)
		return got, err
	}
	body := make([]byte, length)
	_, err = io.ReadFull(r, body)
	got.text = string(body[:min(shownBytes, length)])
	return got, err
}

// readHeaders reads to the empty line and returns the length of the body.
func readHeaders(r *bufio.Reader, got *answer) (int, error) {
	length := 0
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			return length, nil
		}
		name, value, _ := strings.Cut(string(line), ":")
		switch {
		case strings.EqualFold(name, "content-length"):
			if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
				return 0, err
			}
		case strings.EqualFold(name, "connection"):
			got.closes = strings.EqualFold(strings.TrimSpace(value), "close")
		}
	}
}
