// Standin is in the place of the simulator in tests of mutants: it plays one world, in which clients share what there is.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/quota"
)

func main() {
	flag.Duration("time", 0, "")
	flag.Bool("fail-fast", false, "")
	flag.Uint64("seed", 0, "")
	flag.Bool("shrink", true, "")
	flag.Parse()
	if law := broken(); law != "" {
		fmt.Printf("seed 7 breaks a law\n%s at 0.000s: it does not\nfound: %s seed=7 after=0.1s\n", law, law)
		os.Exit(1)
	}
	fmt.Println("1 world")
}

// broken returns the law that does not hold.
func broken() string {
	var all quota.Fair
	one, other := quota.Holder{Principal: "one"}, quota.Holder{Principal: "other"}
	n := 0
	for ; n < 8 && all.Acquire(one, 8); n++ {
	}
	switch {
	case n == 8 || !all.Acquire(other, 8):
		return "a client leaves room"
	case all.Held() != n+1:
		return "held is counted"
	}
	all.Release(other)
	for ; n > 0; n-- {
		all.Release(one)
	}
	if all.Held() != 0 {
		return "nothing is held"
	}
	return ""
}
