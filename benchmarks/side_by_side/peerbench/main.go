// Peerbench is the sender and the upstream of the side-by-side benchmark, in one binary.
//
//	peerbench load -address 127.0.0.1:4318 -template FILE -seconds 5 [-gzip] [-rate 1000]
//	peerbench sink [-field response_id] [-refuse]
package main

import (
	"fmt"
	"os"
	"syscall"
)

func main() {
	commands := map[string]func([]string) error{"load": runLoad, "sink": runSink}
	if len(os.Args) > 1 && commands[os.Args[1]] != nil {
		if err := commands[os.Args[1]](os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	fmt.Fprintln(os.Stderr, "usage: peerbench load|sink")
	os.Exit(2)
}

// cpuSeconds is the user and system time of this process.
func cpuSeconds() float64 {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return float64(usage.Utime.Sec+usage.Stime.Sec) + float64(usage.Utime.Usec+usage.Stime.Usec)/1e6
}
