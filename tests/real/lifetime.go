package main

import (
	"io"
	"os"
	"syscall"
	"time"
)

// endWithStdinVariable makes a component end when its standard input does.
// A starter that holds the other end of that pipe thus takes the component
// along however it dies, and can ask for a graceful end by closing the pipe.
const endWithStdinVariable = "END_WITH_STDIN"

// graceAfterStdin is the time a component has to end by itself after SIGTERM.
const graceAfterStdin = 3 * time.Second

func endWithStdin() {
	if os.Getenv(endWithStdinVariable) == "" {
		return
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		time.Sleep(graceAfterStdin)
		os.Exit(1)
	}()
}
