package main

import (
	"io"
	"os"
	"syscall"
	"time"
)

// endWithStdinVariable is the environment variable that makes a component exit when its standard input, a pipe, is
// closed. The process that starts the component holds the other end of the pipe, so the component exits whenever that
// process exits, for any reason. The process can also close the pipe to request a graceful shutdown.
const endWithStdinVariable = "END_WITH_STDIN"

// graceAfterStdin is the time that a component has to exit after SIGTERM.
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
