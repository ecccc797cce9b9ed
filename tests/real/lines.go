package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// serveLines answers each line of the standard input with a JSON document on one line until the input ends. It returns
// the exit status. Error messages name the role.
func serveLines[T any](role string, answer func(line []byte) T) int {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for {
		line, readErr := in.ReadBytes('\n')
		if len(line) > 1 {
			if err := encoder.Encode(answer(line)); err != nil {
				fmt.Fprintf(os.Stderr, "%s: %v\n", role, err)
				return 1
			}
			// The responses to requests that are already waiting are written together.
			if in.Buffered() == 0 {
				if err := out.Flush(); err != nil {
					fmt.Fprintf(os.Stderr, "%s: %v\n", role, err)
					return 1
				}
			}
		}
		if readErr != nil {
			if err := out.Flush(); err != nil || readErr != io.EOF {
				fmt.Fprintf(os.Stderr, "%s: %v %v\n", role, readErr, err)
				return 1
			}
			return 0
		}
	}
}
